#!/bin/bash
# Workers of {{ sweep_name }}: each element of the array is one node that joins the Ray of {{ script }}, and may come and go.
#SBATCH --job-name={{ job_name }}-workers
#SBATCH --array={{ array }}
#SBATCH --nodes=1
#SBATCH --ntasks=1
{% for option in worker_directives -%}
#SBATCH {{ option }}
{% endfor -%}
#SBATCH --signal=B:USR1@{{ grace_s }}
#SBATCH --requeue
#SBATCH --open-mode=append

set -uo pipefail
say() { echo "[$(date '+%F %T')] worker $SLURM_JOB_ID: $*"; }
{% if setup %}
# Your set-up lines (--setup).
{{ setup }}
{% endif %}
cd {{ working_folder }}
python=({{ python }})
# The time limit is near: Ray drains this node, work leaves its checkpoints and goes on elsewhere. This element queues again.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S={{ leaving_s }}
limit= over=
trap 'limit=1; kill -USR1 ${node:-} 2>/dev/null' USR1
# Cancelled: Ray ends now and removes its files.
trap 'over=1; kill -TERM ${node:-} 2>/dev/null' TERM
while [ -z "$limit$over" ] && [ ! -e {{ folder }}/done ]; do
  head=$(readlink {{ folder }}/head || true)
  if [ -n "$head" ] && [ -s "$head/address" ]; then
    export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$head/token SMOOTHSWEEP_LEAVE_FILE=$head/leave
    "${python[@]}" -m smoothsweep.orchestrator.commands.batch.node "$head" --worker &
    node=$!
    while kill -0 $node 2>/dev/null; do wait $node; done
    say "left the cluster"
  fi
  sleep 5
done
if [ -n "$limit" ] && [ ! -e {{ folder }}/done ]; then
  say "requeued"
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
