#!/bin/bash
# Workers of {{ job.sweep_name }}: each element of the array is one node that joins the Ray of {{ (job.folder / "job.sh") | quote }}, and may come and go.
#SBATCH --job-name={{ job.job_name }}-workers
#SBATCH --array={{ job.array }}
#SBATCH --nodes=1
#SBATCH --ntasks=1
{% for option in job.worker_directives -%}
#SBATCH {{ option }}
{% endfor -%}
#SBATCH --signal=B:USR1@{{ job.grace_s }}
#SBATCH --requeue
#SBATCH --open-mode=append

set -uo pipefail
say() { echo "[$(date '+%F %T')] worker $SLURM_JOB_ID: $*"; }
{% if job.setup %}
# Your set-up lines (--setup).
{{ job.setup }}
{% endif %}
cd {{ job.working_folder | quote }}
python=({{ job.python | words }})
# The time limit is near: Ray drains this node, work leaves its checkpoints and goes on elsewhere. This element queues again.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S={{ job.leaving_s }}
limit= over=
trap 'limit=1; kill -USR1 ${node:-} 2>/dev/null' USR1
# Cancelled: Ray ends now and removes its files.
trap 'over=1; kill -TERM ${node:-} 2>/dev/null' TERM
while [ -z "$limit$over" ] && [ ! -e {{ job.folder | quote }}/done ]; do
  head=$(readlink {{ job.folder | quote }}/head || true)
  if [ -n "$head" ] && [ -s "$head/address" ]; then
    export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$head/token SMOOTHSWEEP_LEAVE_FILE=$head/leave
    "${python[@]}" -m smoothsweep.orchestrator.commands.batch.node "$head" --worker &
    node=$!
    while kill -0 $node 2>/dev/null; do wait $node; done
    say "left the cluster"
  fi
  sleep 5
done
if [ -n "$limit" ] && [ ! -e {{ job.folder | quote }}/done ]; then
  say "requeued"
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
