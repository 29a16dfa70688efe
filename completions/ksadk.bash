# bash completion of ksadk, the other name of agentengine. Written by `make docs`; do not edit.
for _agentengine_script in "${BASH_SOURCE[0]%/*}"/agentengine{,.bash}; do
    # shellcheck source=/dev/null
    [[ -r $_agentengine_script ]] && . "$_agentengine_script" && break
done
unset _agentengine_script
