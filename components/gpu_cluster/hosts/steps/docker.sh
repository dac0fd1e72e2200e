# Configures the NVIDIA runtime in Docker, with the functions that runtime.sh calls. daemon.json is
# merged, never replaced; `docker info` of the running daemon decides whether the result is right.
# Sources: dockerd reference ("Daemon configuration file", "Configuration reload behavior"), Docker
# docs "OverlayFS storage driver" and "Packet filtering".
#
# State: data-root (old and new place of Docker's data), moving (an unfinished move), members (users
# added to the group docker), forward (the previous policy of the chain FORWARD).

unit=docker
config=/etc/docker/daemon.json
forward=/etc/systemd/system/docker.service.d/gpu-cluster-forward.conf
files="$config $forward"

# Sets `engine_program` and `config` to the program and daemon.json of the unit's daemon, and keeps
# the daemon's arguments.
find_engine() {
    find_running "$unit" dockerd
    engine_program=${running_program:-$(command -v dockerd)}
    config=$(flag config-file) || config=/etc/docker/daemon.json
    files="$config $forward"
    cp -- "$scratch/words" "$scratch/engine-words"
    read_flags
}

require_engine() {
    find_engine
    require_known "$unit"
    if [ -z "$engine_program" ] || ! have docker; then
        problem "no dockerd or no docker command" "Docker 20.10 or later" "install Docker"
        return 0
    fi
    require_version dockerd "$engine_program" Docker 20.10
    take_version
    for name in $GC_DOCKER_MEMBERS; do
        id "$name" >/dev/null 2>&1 ||
            problem "no user $name" "users of runtime.docker.members" "make the user, or take it off the list"
    done
    [ "$GC_DOCKER_FORWARD" = leave ] || have iptables ||
        problem "no iptables" "iptables for FORWARD ACCEPT" "install iptables, or declare runtime.docker.forward: leave"
}

docker_says() {
    timeout 60 docker info --format "$1" 2>"$scratch/judgement" 9>&-
}

make_wanted() {
    make_folder "$config"
    make_folder "$forward"
    normal "$(original)" "$scratch/original.json" && normal "$root$config" "$scratch/current.json" || {
        problem "$config that is no JSON: $(tail -n 1 "$scratch/json-error")" \
            "a JSON object" "mend it (docker's log names the place)"
        return 0
    }
    choose_written
    data_root_now
    choose_storage
    cdi=$GC_CDI
    case $engine_version in
        # Docker has CDI since 25; in earlier versions devices come only from the nvidia runtime.
        2[0-4].*) cdi=false ;;
    esac
    merge_json "$scratch/mirrors" "$scratch/original.json" "$scratch/current.json" >"$scratch/merged.json" &&
        normal "$scratch/merged.json" "$scratch/drafts$config" ||
        fail_act "can't merge $config: $(tail -n 1 "$scratch/json-error"); correct the JSON of $config at that place, then run \`gpu-cluster up\` again"
    [ "$GC_DOCKER_FORWARD" = leave ] || printf '%s\n' '# gpu-cluster: Docker sets DROP, which stops pods (read at the next boot)' \
        '[Service]' "ExecStartPost=-$(command -v iptables) -w -P FORWARD ACCEPT" >"$scratch/drafts$forward"
}

check_wanted() {
    [ -f "$scratch/drafts$config" ] || return 0
    check_place
    if timeout 60 "$engine_program" --help 2>&1 | grep -q -e --validate; then
        set -- # With the unit's flags, because dockerd refuses what stands in both.
        while IFS= read -r word; do
            set -- "$@" "$word"
        done <"$scratch/engine-words"
        timeout 60 "$engine_program" "$@" --validate --config-file "$scratch/drafts$config" >"$scratch/judgement" 2>&1 ||
            problem "that Docker $engine_version refuses the new daemon.json: $(why)" "one that loads" \
                "correct runtime.docker, or $config"
    elif [ -z "$problems" ] && differs; then
        check_present # This is the last check, because it reloads Docker.
    fi
}

# Checks the new place of Docker's data.
check_place() {
    [ "$data_from" != "$data_to" ] && [ ! -f "$state/moving" ] && [ -d "$root$data_from" ] || return 0
    [ -z "$(ls -A "$root$data_to" 2>/dev/null)" ] ||
        problem "files in $data_to" "an empty or absent folder for Docker's data" "empty it, or declare another data root"
    running=$(timeout 60 docker ps -q 2>/dev/null | wc -l)
    [ "$running" -eq 0 ] ||
        problem "$running running containers" "none while Docker's data move" "drain the host, or stop them"
    if ! same_device "$data_from" "$data_to"; then
        need=$(du -sk "$root$data_from" | cut -f 1)
        free=$(df -Pk "$root$(existing_part "$data_to")" | awk 'NR == 2 { print $4 }')
        [ "$need" -lt "$free" ] ||
            problem "$((free / 1024)) MiB free for $data_to" "$((need / 1024)) MiB" "free space or grow the disk"
    fi
}

# Checks the present daemon.json before it changes, for a Docker that can't check a file (before 23):
# with directives that dockerd refuses, Docker runs on after a reload but starts no more. The change
# needs a reload or a restart in any case. dockerd writes an event only for a file that it has taken
# (moby 20.10, daemon/reload.go), and its reason only to the log.
check_present() {
    [ -s "$root$config" ] && systemctl is-active --quiet docker || return 0
    since=$(date +%s)
    timeout 120 systemctl reload docker >"$scratch/reload" 2>&1 9>&- || return 0
    again 20 0.5 reloaded_since "$since" ||
        problem "$config that the running Docker $engine_version refuses: $(refused_since "$since")" "a file that loads" \
            "correct $config: Docker would not start with it again"
}

reloaded_since() {
    [ -n "$(timeout 60 docker events --since "$1" --until "$(($(date +%s) + 1))" --filter event=reload 2>/dev/null 9>&-)" ]
}

# Prints the last error that dockerd has logged since a time.
refused_since() {
    have journalctl || { echo "see its log"; return; }
    timeout 20 journalctl --unit=docker --since="@$1" --output=cat 2>/dev/null |
        sed -n 's/^.*level=error msg="\(.*\)"$/\1/p' | tail -n 1 | grep . || echo "see journalctl -u docker"
}

judge_applied() {
    again 20 0.5 judge_once # The daemon applies a reload some time after the signal.
}

judge_once() {
    # shellcheck disable=SC2016 # a Go template's own variables
    found=$(docker_says '{{.DefaultRuntime}} {{.DockerRootDir}} {{.Driver}} {{range $name, $_ := .Runtimes}}{{$name}},{{end}}') ||
        return 1
    want_default=$(value_of default-runtime "$root$config")
    want_default=${want_default:-$flag_default}
    want_driver=$(value_of storage-driver "$root$config")
    want_driver=${want_driver:-$flag_storage}
    # shellcheck disable=SC2086 # words, split on purpose
    set -- $found
    case ,$4 in
        *,nvidia,*) ;;
        *) printf 'docker info shows no runtime nvidia: %s\n' "$4" >"$scratch/judgement"; return 1 ;;
    esac
    [ "$1" = "${want_default:-runc}" ] && [ "$2" = "$data_to" ] && [ "$3" = "${want_driver:-$3}" ] ||
        { printf 'docker info shows %s\n' "$found" >"$scratch/judgement"; return 1; }
    expect info "${want_default:-runc}"
    answer="docker info: Docker $engine_version has the runtimes ${4%,}, $1 by default, data in $2, storage driver $3"
}

after_start() {
    for name in $GC_DOCKER_MEMBERS; do
        expect member "$name" docker
        case " $(id -nG "$name") " in
            *" docker "*) continue ;;
        esac
        record members "$name"
        timeout 60 usermod -aG docker "$name" || fail "$name can't be put into the group docker; remove the user from runtime.docker.members, or create the user (useradd) and the group (groupadd docker), then run \`gpu-cluster up\` again"
        did "$name in the group docker"
    done
    if [ -f "$state/members" ]; then
        while IFS= read -r name; do
            case " $GC_DOCKER_MEMBERS " in *" $name "*) ;; *) leave_group "$name" ;; esac
        done <"$state/members"
    fi
    if [ "$GC_DOCKER_FORWARD" = leave ]; then
        forward_back
        return 0
    fi
    expect forward ACCEPT
    policy=$(forward_policy)
    [ "$policy" != ACCEPT ] || return 0
    [ -f "$state/forward" ] || printf '%s\n' "$policy" >"$state/forward"
    timeout 30 iptables -w -P FORWARD ACCEPT || fail_act "iptables can't set the policy of FORWARD; load the module ip_tables (modprobe ip_tables) or choose iptables-nft (update-alternatives --config iptables), then run \`gpu-cluster up\` again"
    did "iptables: FORWARD ACCEPT"
}

forward_policy() {
    timeout 30 iptables -w -S FORWARD | sed -n 's/^-P FORWARD //p'
}

forward_back() {
    [ -f "$state/forward" ] || return 0
    read -r policy <"$state/forward"
    rm -f -- "$state/forward"
    [ "$(forward_policy)" != "$policy" ] || return 0
    timeout 30 iptables -w -P FORWARD "$policy" && undid "iptables: FORWARD $policy" ||
        note "iptables can't set the policy of FORWARD to $policy"
}

leave_group() {
    case " $(id -nG "$1" 2>/dev/null) " in
        *" docker "*) timeout 60 gpasswd -d "$1" docker >/dev/null && undid "$1 not in the group docker" ;;
    esac
}

engine_view() {
    find_engine
    if [ -f "$root$config" ]; then cat -- "$root$config" >"$1"; else : >"$1"; fi
}

engine_off() {
    if [ -f "$state/data-root" ]; then
        read -r data_to <"$state/data-root"
        data_from=$(value_of data-root "$scratch/view")
        if [ -f "$state/moving" ]; then
            files_back
        elif [ -n "$data_from" ] && [ "$data_from" != "$data_to" ] && [ -d "$root$data_from" ]; then
            move_data "$data_from" "$data_to"
            settled
            undid "Docker's data: $data_from -> $data_to"
        fi
        again=yes
    fi
    if [ -f "$state/members" ]; then
        while IFS= read -r name; do
            leave_group "$name"
        done <"$state/members"
    fi
    forward_back
}

smi_in_container() {
    pulled=no
    if ! timeout 60 docker image inspect "$1" >/dev/null 2>&1; then
        pulled=yes
        timeout 300 docker pull -q "$1" >"$scratch/pull" 2>&1 || fail "$1 can't be pulled: $(tail -n 1 "$scratch/pull"); correct the image or registry.mirror in the stack file"
    fi
    timeout 120 docker run --rm --runtime=nvidia --cap-add SYS_ADMIN --env NVIDIA_VISIBLE_DEVICES=all "$1" nvidia-smi -L >"$scratch/smi" 2>&1
    status=$?
    [ "$pulled" = no ] || timeout 60 docker image rm "$1" >/dev/null 2>&1
    return $status
}

# --- found later: the probe has this part too ---

# found_member NAME GROUP: called by the probe; returns true if the user is in the group.
found_member() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="$1 not in the group $2"
    case " $(id -nG "$1" 2>/dev/null) " in
        *" $2 "*) return 0 ;;
    esac
    return 1
}

# found_info DEFAULT: returns true if the running dockerd has the NVIDIA runtime, and DEFAULT as its
# default runtime.
found_info() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted=docker
    # shellcheck disable=SC2016 # a Go template's own variables
    case $(timeout 5 docker info --format '{{.DefaultRuntime}} {{range $name, $_ := .Runtimes}}{{$name}},{{end}}' 2>/dev/null) in
        "$1 nvidia,"* | "$1 "*,nvidia,*) return 0 ;;
    esac
    return 1
}

found_forward() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="iptables FORWARD not $1"
    timeout 5 iptables -w -S FORWARD 2>/dev/null | grep -qx -e "-P FORWARD $1"
}
