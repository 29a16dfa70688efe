# bash completion of agentengine and ksadk, for bash 3.2 and newer. Written by `make docs`; do not edit.
#
# Commands and options are answered here. Names that change are asked of the agentengine that is on the PATH,
# never of a program that is named by its path: that one may belong to a project that nobody trusts.

_agentengine_table() {
    commands='' options='' values='' arguments=''
    case $1 in
    '')
        commands='init a2a tools workspace sandbox skills approvals trust config doctor'
        options='--env-file --debug --version --help'
        values='--env-file=file'
        ;;
    'init')
        options='--framework --name --force --json --output -o --help'
        values='--framework=words:python,langgraph,langchain,deepagents,google-adk --name=none --output=words:text,json -o=words:text,json'
        arguments='directory'
        ;;
    'a2a')
        commands='card serve register discover call status cancel tasks center'
        options='--help'
        ;;
    'a2a card')
        options='--url --name --description --skill --agent-version --provider --documentation-url --icon-url --input-mode --output-mode --no-streaming --sign --key-id --check --json --output -o --help'
        values='--url=none --name=none --description=none --skill=none --agent-version=none --provider=none --documentation-url=none --icon-url=none --input-mode=none --output-mode=none --sign=none --key-id=none --check=file --output=words:text,json -o=words:text,json'
        arguments='directory'
        ;;
    'a2a serve')
        options='--host --port --url --name --description --skill --agent --task-store-dsn --durability --include-reasoning --no-include-reasoning --bearer-file --allowed-host --trusted-edge --approve-here --remote-approvals --grace --max-body --max-running --log-format --reload --json --output -o --help'
        values='--host=none --port=none --url=none --name=none --description=none --skill=none --agent=none --task-store-dsn=none --durability=words:normal,full --bearer-file=file --allowed-host=none --trusted-edge=none --grace=none --max-body=none --max-running=none --log-format=words:text,json --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'a2a register')
        options='--space-id --route --blocked --credential --center --admin-token-file --timeout --bearer --session --root --audit-args --log-all --json --output -o --help'
        values='--space-id=spaces --route=words:hosted,public,vpc --blocked=none --credential=file --center=none --admin-token-file=file --timeout=none --bearer=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json,jsonl -o=words:text,json,jsonl'
        arguments='none'
        ;;
    'a2a discover')
        options='--space-id --skill --prompt --include-blocked --key --timeout --bearer --session --root --audit-args --log-all --json --output -o --help'
        values='--space-id=spaces --skill=none --prompt=none --key=file --timeout=none --bearer=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json,jsonl -o=words:text,json,jsonl'
        arguments='none'
        ;;
    'a2a call')
        options='--agent-card -a --space-id --text --file --data --media-type --task-id --context-id --metadata --stream --wait --async --timeout --poll-interval --transport --bearer --api-key --svc-param --interactive --exit-status --session --root --audit-args --log-all --json --output -o --help'
        values='--agent-card=none -a=none --space-id=spaces --text=none --file=none --data=none --media-type=none --task-id=none --context-id=none --metadata=none --timeout=none --poll-interval=none --transport=none --bearer=none --api-key=none --svc-param=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json,jsonl -o=words:text,json,jsonl'
        arguments='none...'
        ;;
    'a2a status')
        options='--agent-card -a --space-id --wait --watch --history --timeout --poll-interval --exit-status --transport --bearer --api-key --svc-param --session --root --audit-args --log-all --json --output -o --help'
        values='--agent-card=none -a=none --space-id=spaces --history=none --timeout=none --poll-interval=none --transport=none --bearer=none --api-key=none --svc-param=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json,jsonl -o=words:text,json,jsonl'
        arguments='none'
        ;;
    'a2a cancel')
        options='--agent-card -a --space-id --timeout --transport --bearer --api-key --svc-param --session --root --audit-args --log-all --json --output -o --help'
        values='--agent-card=none -a=none --space-id=spaces --timeout=none --transport=none --bearer=none --api-key=none --svc-param=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json,jsonl -o=words:text,json,jsonl'
        arguments='none'
        ;;
    'a2a tasks')
        options='--agent-card -a --state --context-id --page-size --page-token --timeout --transport --bearer --api-key --svc-param --session --root --audit-args --log-all --json --output -o --help'
        values='--agent-card=none -a=none --state=none --context-id=none --page-size=none --page-token=none --timeout=none --transport=none --bearer=none --api-key=none --svc-param=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json,jsonl -o=words:text,json,jsonl'
        ;;
    'a2a center')
        options='--host --port --url --data-dir --db --token-dir --bearer-file --allowed-host --task-timeout --log-format --json --output -o --help'
        values='--host=none --port=none --url=none --data-dir=directory --db=none --token-dir=none --bearer-file=file --allowed-host=none --task-timeout=none --log-format=words:text,json --output=words:text,json -o=words:text,json'
        arguments='words:demo'
        ;;
    'tools')
        commands='list describe call search'
        options='--help'
        ;;
    'tools list')
        options='--group --profile --enabled --json --output -o --help'
        values='--group=groups --profile=profiles --output=words:text,json -o=words:text,json'
        arguments='toolsets...'
        ;;
    'tools describe')
        options='--format --json --output -o --help'
        values='--format=words:json-schema,openai,anthropic,mcp --output=words:text,json -o=words:text,json'
        arguments='tools'
        ;;
    'tools call')
        options='--args --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--args=text --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='tools arguments...'
        ;;
    'tools search')
        options='--profile --limit --all --json --output -o --help'
        values='--profile=profiles --limit=none --output=words:text,json -o=words:text,json'
        arguments='none'
        ;;
    'workspace')
        commands='status list read write edit multi-edit search lint delete'
        options='--help'
        ;;
    'workspace status')
        options='--session --root --audit-args --log-all --json --output -o --help'
        values='--approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        ;;
    'workspace list')
        options='--glob --recursive -r --dirs --no-dirs --limit --sort --session --root --audit-args --log-all --json --output -o --help'
        values='--glob=none --limit=none --sort=words:name,mtime,size --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'workspace read')
        options='--start-line --end-line --max-chars --numbers --no-numbers --encoding --session --root --audit-args --log-all --json --output -o --help'
        values='--start-line=none --end-line=none --max-chars=none --encoding=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'workspace write')
        options='--content --overwrite --no-overwrite --encoding --in-place --dry-run --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--content=text --encoding=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'workspace edit')
        options='--old --new --expected --replace-all --encoding --in-place --dry-run --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--old=text --new=text --expected=none --encoding=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'workspace multi-edit')
        options='--edits --replace-all --encoding --in-place --dry-run --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--edits=text --encoding=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'workspace search')
        options='--regex -e --glob --case-sensitive -s --context -C --limit --session --root --audit-args --log-all --json --output -o --help'
        values='--glob=none --context=none -C=none --limit=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='none workspace'
        ;;
    'workspace lint')
        options='--language --encoding --session --root --audit-args --log-all --json --output -o --help'
        values='--language=words:python,json --encoding=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'workspace delete')
        options='--dry-run --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'sandbox')
        commands='run status list kill'
        options='--help'
        ;;
    'sandbox run')
        options='--code --language --net --timeout --memory --diff --keep --dry-run --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--code=file --language=words:python,javascript,bash --timeout=none --memory=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='none...'
        ;;
    'sandbox status')
        options='--probe --session --root --audit-args --log-all --json --output -o --help'
        values='--approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        ;;
    'sandbox list')
        options='--session --root --audit-args --log-all --json --output -o --help'
        values='--approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        ;;
    'sandbox kill')
        options='--session --root --audit-args --log-all --json --output -o --help'
        values='--approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='sandboxes'
        ;;
    'skills')
        commands='list search load execute lint compat pack lock serve'
        options='--help'
        ;;
    'skills list')
        options='--space --source --project --session --root --audit-args --log-all --json --output -o --help'
        values='--space=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        ;;
    'skills search')
        options='--limit --space --project --session --root --audit-args --log-all --json --output -o --help'
        values='--limit=none --space=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='none'
        ;;
    'skills load')
        options='--space --project --session --root --audit-args --log-all --json --output -o --help'
        values='--space=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='skills'
        ;;
    'skills execute')
        options='--prompt --input --out --force --timeout --project --dry-run --yes --no-input --approval --wait-approval --session --root --audit-args --log-all --json --output -o --help'
        values='--prompt=none --input=file --out=directory --timeout=none --approval=approved --wait-approval=none --session=none --root=directory --output=words:text,json -o=words:text,json'
        arguments='skills...'
        ;;
    'skills lint')
        options='--fix --publish --json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'skills compat')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='workspace'
        ;;
    'skills pack')
        options='--out --force --json --output -o --help'
        values='--out=file --output=words:text,json -o=words:text,json'
        arguments='directory'
        ;;
    'skills lock')
        options='--check --project --json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='skills...'
        ;;
    'skills serve')
        options='--host --port --space --url --token-file --json --output -o --help'
        values='--host=none --port=none --space=none --url=none --token-file=file --output=words:text,json -o=words:text,json'
        arguments='directory'
        ;;
    'approvals')
        commands='log verify suggest watch list show approve deny rules'
        options='--help'
        ;;
    'approvals log')
        options='--tool --outcome --since --limit --follow --json --output -o --help'
        values='--tool=tools --outcome=words:allowed,approved,denied_by_rule,approval_rejected,approval_expired,approval_required,not_started --since=none --limit=none --output=words:text,json -o=words:text,json'
        ;;
    'approvals verify')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        ;;
    'approvals suggest')
        options='--times --json --output -o --help'
        values='--times=none --output=words:text,json -o=words:text,json'
        ;;
    'approvals watch')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        ;;
    'approvals list')
        options='--all --json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        ;;
    'approvals show')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='requests'
        ;;
    'approvals approve')
        options='--edit --json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='requests'
        ;;
    'approvals deny')
        options='--reason --json --output -o --help'
        values='--reason=none --output=words:text,json -o=words:text,json'
        arguments='requests'
        ;;
    'approvals rules')
        commands='list add test remove'
        options='--help'
        ;;
    'approvals rules list')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        ;;
    'approvals rules add')
        options='--argv --exact --reason --expires --project --match --not-match --json --output -o --help'
        values='--argv=none --reason=none --expires=none --project=directory --match=none --not-match=none --output=words:text,json -o=words:text,json'
        arguments='words:deny,ask,allow tools arguments...'
        ;;
    'approvals rules test')
        options='--root --json --output -o --help'
        values='--root=directory --output=words:text,json -o=words:text,json'
        arguments='none'
        ;;
    'approvals rules remove')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='none'
        ;;
    'trust')
        options='--list --revoke --json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        arguments='directory'
        ;;
    'config')
        commands='show'
        options='--help'
        ;;
    'config show')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        ;;
    'doctor')
        options='--json --output -o --help'
        values='--output=words:text,json -o=words:text,json'
        ;;
    esac
}

# Sets `all` to the words up to the cursor, put together again where COMP_WORDBREAKS parted them.
_agentengine_words() {
    local line=${COMP_LINE:0:COMP_POINT} rest i last=-1
    all=()
    for (( i = 0; i <= COMP_CWORD; i++ )); do
        rest=${line#"${line%%[![:space:]]*}"}
        if (( i == 0 )) || [[ $rest != "$line" ]]; then
            all[++last]=''
        fi
        if (( i == COMP_CWORD )); then
            all[last]+=$rest
        else
            all[last]+=${COMP_WORDS[i]}
            line=${rest#"${COMP_WORDS[i]}"}
        fi
    done
}

_agentengine_kind_of() { # OPTION: the kind of its value, empty where it takes none
    local entry
    for entry in $values; do
        [[ $entry == "$1="* ]] && printf '%s' "${entry#*=}" && return
    done
}

_agentengine_offer() { # PREFIX NAME...: those names that continue what is typed
    local prefix=$1 name
    shift
    for name; do
        [[ $prefix$name == "$typed"* ]] && COMPREPLY+=("$prefix$name")
    done
}

_agentengine_files() { # PREFIX DIRECTORY [-d]: the files below a directory, or directories only
    local prefix=$1 file
    compopt -o filenames 2>/dev/null
    while IFS= read -r file; do
        COMPREPLY+=("$prefix$file")
    done < <(builtin cd -- "${2/#\~/$HOME}" >/dev/null 2>&1 && compgen "${3:--f}" -- "${typed#"$prefix"}")
}

_agentengine_ask() { # PREFIX KIND [WORD]: the names that the program knows
    local prefix=$1 program name
    shift
    program=$(type -P agentengine)
    [[ $program == /* ]] || return
    while IFS=$'\t' read -r name _; do
        _agentengine_offer "$prefix" "$name"
    done < <("$program" --complete "$@" </dev/null 2>/dev/null)
}

_agentengine_value() { # PREFIX KIND: offers the values of an option or an argument
    local workspace=${root:-.agentengine/ui/workspace}
    case $2 in
    words:*)
        local IFS=,
        # shellcheck disable=SC2086
        _agentengine_offer "$1" ${2#words:}
        ;;
    file) _agentengine_files "$1" . ;;
    directory) _agentengine_files "$1" . -d ;;
    text) [[ $typed == "$1@"* ]] && _agentengine_files "$1@" . ;;
    workspace) _agentengine_files "$1" "$workspace" ;;
    arguments)
        if [[ $typed == path=* ]]; then
            _agentengine_files path= "$workspace"
        elif [[ $typed != *=* ]]; then
            compopt -o nospace 2>/dev/null
            _agentengine_ask "$1" arguments "$tool"
        fi
        ;;
    none) ;;
    *) _agentengine_ask "$1" "$2" ;;
    esac
}

_agentengine() {
    local IFS=$' \t\n' commands options values arguments all kinds typed word kind
    local path='' tool='' root='' expects='' plain='' before='' count=0 i
    COMPREPLY=()
    _agentengine_words
    _agentengine_table ''
    for (( i = 1; i < ${#all[@]} - 1; i++ )); do
        word=${all[i]}
        if [[ -n $expects ]]; then
            [[ $before == --root ]] && root=$word
            expects=''
        elif [[ -z $plain && $word == -- ]]; then
            plain=yes
        elif [[ -z $plain && $word == -* ]]; then
            [[ $word == --root=* ]] && root=${word#*=}
            expects=$(_agentengine_kind_of "$word")
            before=$word
        elif [[ " $commands " == *" $word "* ]]; then
            path="$path${path:+ }$word"
            _agentengine_table "$path"
        else
            # shellcheck disable=SC2206
            kinds=($arguments)
            [[ ${kinds[count]:-} == tools ]] && tool=$word
            (( count += 1 ))
        fi
    done
    typed=${all[${#all[@]} - 1]}
    typed=${typed#[\"\']}

    if [[ -n $expects ]]; then
        _agentengine_value '' "$expects"
    elif [[ -z $plain && $typed == --*=* ]]; then
        kind=$(_agentengine_kind_of "${typed%%=*}")
        [[ -n $kind ]] && _agentengine_value "${typed%%=*}=" "$kind"
    elif [[ -z $plain && $typed == -* ]]; then
        # shellcheck disable=SC2086
        _agentengine_offer '' $options
    elif [[ -n $commands ]]; then
        # shellcheck disable=SC2086
        _agentengine_offer '' $commands
    else
        for kind in $arguments; do
            if (( count == 0 )) || [[ $kind == *... ]]; then
                _agentengine_value '' "${kind%...}"
                break
            fi
            (( count -= 1 ))
        done
    fi
    # What stands before the last break of the word stays as it is.
    local kept=${typed%"${2#[\"\']}"}
    for (( i = 0; i < ${#COMPREPLY[@]}; i++ )); do
        COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
    done
}

complete -F _agentengine agentengine ksadk
