# fish completion of ksadk, the other name of agentengine. Written by `make docs`; do not edit.
for script in (status dirname)/agentengine.fish
    source $script
end
