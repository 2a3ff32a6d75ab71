#!/bin/bash
# {{ job.sweep_name }}: one sweep as one Slurm job. Written by `smoothsweep slurm`. You may edit it and submit it again: sbatch {{ (job.folder / "job.sh") | quote }}
#SBATCH --job-name={{ job.job_name }}
#SBATCH --nodes={{ job.nodes }}
#SBATCH --ntasks-per-node=1
{% for option in job.directives -%}
#SBATCH {{ option }}
{% endfor -%}
#SBATCH --signal=B:USR1@{{ job.grace_s }}
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --open-mode=append

set -uo pipefail
say() { echo "[$(date '+%F %T')] job $SLURM_JOB_ID: $*"; }
{% if job.setup %}
# Your set-up lines (--setup).
{{ job.setup }}
{% endif %}
# {{ job.grace_s }} s before the time limit: work leaves its checkpoints, the command ends in order, the job queues again.
again= driver=
end_command() { [ -z "$driver" ] || kill -TERM $driver 2>/dev/null; }
leave() { again=1; say "the time limit is near"; touch "$folder/leave"; (wait_for_work; end_command) & }
# At most {{ job.leaving_s }} s; less where all work has left its checkpoints before.
wait_for_work() { for _ in $(seq {{ job.leaving_s }}); do [ ! -e "$folder/left" ] || break; sleep 1; done; }
trap leave USR1
trap end_command TERM

cd {{ job.working_folder | quote }}
python=({{ job.python | words }})
store={{ job.store | quote }}
# This folder is for you alone (mode 700). All nodes must see it. It holds Ray's token and address while the job runs.
folder={{ job.folder | quote }}/job-$SLURM_JOB_ID
rm -rf "$folder" && mkdir -m 700 "$folder" && touch "$folder/started" || exit 1
ended() {
  {%- if job.nodes > 1 or job.array %}
  touch "$folder/ended" && [ -n "${ray_step:-}" ] && wait $ray_step  # every node ends its Ray and removes its files
  {%- endif %}
  {%- if job.array %}
  [ -n "${again:-}" ] || touch {{ job.folder | quote }}/done
  {%- endif %}
  rm -rf "$folder"
}
trap ended EXIT
say "start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
# Tasks look for this file: where it exists, a training leaves after the epoch in work and an attack after the class in work.
export SMOOTHSWEEP_LEAVE_FILE=$folder/leave
{% if job.nodes > 1 or job.array %}
# One Ray for this job: the first node is its head, the others join. Every call has to bring the token. Ports are chosen anew.
(umask 077; "${python[@]}" -c 'import secrets; print(secrets.token_hex(32), end="")' > "$folder/token")
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$folder/token
{%- if job.array %}
# The workers are jobs of their own ({{ job.folder / "workers.sh" }}). They find this head by the link `head`.
export SMOOTHSWEEP_CLUSTER_GPUS={{ job.workers * job.gpus }} SMOOTHSWEEP_NODE_GPUS={{ job.gpus }}
rm -f {{ job.folder | quote }}/done && ln -sfn "$folder" {{ job.folder | quote }}/head
{%- endif %}
srun --overlap --no-kill --kill-on-bad-exit=0 --ntasks-per-node=1 "${python[@]}" -m smoothsweep.orchestrator.commands.batch.node "$folder" &
ray_step=$!
until [ -s "$folder/address" ]; do
  kill -0 $ray_step 2>/dev/null && [ ! -e "$folder/ended" ] || { say "Ray did not start on $(hostname)"; exit 1; }
  sleep 1
done
address=(--address "$(cat "$folder/address")")
{% else %}
# One node: the command starts a Ray of its own, on the loopback interface, with the CPUs and GPUs that Slurm gave.
address=()
{% endif %}
"${python[@]}" -m smoothsweep run {{ job.run_arguments | words }} --store "$store" --yes "${address[@]}" &
driver=$!

code=130
while kill -0 $driver 2>/dev/null; do wait $driver; code=$?; done
say "the command ended with exit code $code"

if [ -n "$again" ] && [ $code -ne 0 ] && [ $code -ne 2 ]; then
{%- if "://" not in job.store %}
  if [ -z "$(find "$store" -newer "$folder/started" \( -name manifest.json -o -path '*.work/*' \) -not -name progress.json -print -quit)" ]; then
    again=; say "no stage ended and no checkpoint was written before the time limit: not requeued. Give a longer --time."; exit 1
  fi
{%- endif %}
  say "requeued: the same command goes on from here"
  ended; trap - EXIT
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
