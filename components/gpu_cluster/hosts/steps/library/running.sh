# Reads the program, arguments and environment variables of a running service. A configuration file
# alone does not show whether the running program has read it. Sources: systemctl(1), show;
# systemd.service(5), "Command lines"; systemd.exec(5), Environment and EnvironmentFile; proc(5).

# find_running UNIT DAEMON: sets `pid` to the daemon's process, or to nothing, and `running_program`
# to the path of the daemon that runs, or that the unit starts; `wrapper` to another program that the
# unit starts, if the daemon does not run. Writes the daemon's arguments to the
# file `words` and its variables to the file `environment`, one per line: the process's, or the unit's
# if the daemon does not run.
# shellcheck disable=SC2034 # callers read these variables
find_running() {
    pid='' running_program='' wrapper=
    : >"$scratch/words" && : >"$scratch/environment"
    systemctl show --property=ExecStart "$1" >"$scratch/shown" 2>/dev/null || return 0
    pid=$(daemon_process "$1" "$2")
    if [ -n "$pid" ]; then
        running_program=$(program_of "$pid")
        tr '\000' '\n' <"$root/proc/$pid/cmdline" | sed 1d >"$scratch/words"
        tr '\000' '\n' <"$root/proc/$pid/environ" >"$scratch/environment"
        return 0
    fi
    path=$(sed -n 's/^ExecStart={ path=\([^ ;]*\) ;.*/\1/p' "$scratch/shown" | tail -n 1)
    if [ "${path##*/}" = "$2" ]; then running_program=$path; else wrapper=$path; fi
    words_of_unit "$1" >"$scratch/words"
}

# require_known UNIT: adds a problem if the unit's daemon does not run and another program starts it,
# because only the running daemon shows which configuration file that program names.
require_known() {
    [ -z "$wrapper" ] ||
        problem "unit $1 that does not run, and whose program $wrapper starts the daemon, so its configuration file is unknown" \
            "a running daemon" "start it (\`systemctl start $1\`), and run again"
}

# child_words UNIT DAEMON: writes the arguments of a daemon that the service has started; fails if
# the service has not started the daemon.
child_words() {
    child=$(daemon_process "$1" "$2")
    [ -n "$child" ] && tr '\000' '\n' <"$root/proc/$child/cmdline" | sed 1d >"$scratch/words"
}

# daemon_process UNIT DAEMON: prints the number of the service's main process, or of a child of it, if
# that is the daemon.
daemon_process() {
    main=$(main_process "$1")
    [ -n "$main" ] || return 0
    # shellcheck disable=SC2013 # paths without spaces
    for status in "$root/proc/$main/status" $(grep -l "^PPid:[[:space:]]*$main\$" "$root"/proc/[0-9]*/status 2>/dev/null); do
        process=${status%/status}
        process=${process##*/}
        program=$(program_of "$process")
        [ "${program##*/}" != "$2" ] || {
            echo "$process"
            return 0
        }
    done
}

# program_of PROCESS: prints the path of a process's program, also if an upgrade has replaced it.
program_of() {
    readlink "$root/proc/$1/exe" 2>/dev/null | sed 's/ (deleted)$//'
}

# words_of_unit UNIT: prints the arguments of the unit's last command, one per line, without the
# program and with variables expanded as systemd does. The file `shown` has the unit's properties.
words_of_unit() {
    unit_environment "$1" >"$scratch/environment"
    sed -n 's/^ExecStart={.* ; argv\[\]=\(.*\) ; ignore_errors=.*/\1/p' "$scratch/shown" | tail -n 1 |
        awk -v environment="$scratch/environment" '
            function value_of(name) { return name in value ? value[name] : "" }
            BEGIN {
                while ((getline line <environment) > 0)
                    value[substr(line, 1, index(line, "=") - 1)] = substr(line, index(line, "=") + 1)
            }
            {
                for (n = 2; n <= NF; n++) {
                    if ($n ~ /^\$[A-Za-z_][A-Za-z0-9_]*$/) {
                        count = split(value_of(substr($n, 2)), list, " ")
                        for (i = 1; i <= count; i++) print list[i]
                        continue
                    }
                    word = $n
                    while (match(word, /\$\{[A-Za-z_][A-Za-z0-9_]*\}/))
                        word = substr(word, 1, RSTART - 1) value_of(substr(word, RSTART + 2, RLENGTH - 3)) \
                            substr(word, RSTART + RLENGTH)
                    print word
                }
            }'
}

# unit_environment UNIT: prints the variables of a unit as NAME=VALUE; a later value overrides an
# earlier one. First come variables of the unit and its drop-ins, then those of EnvironmentFile.
unit_environment() {
    systemctl show --property=Environment "$1" 2>/dev/null | sed -n 's/^Environment=//p' | assignments
    environment_files "$1" |
        while IFS= read -r variables; do
            file_variables "$root$variables"
        done
}

# environment_files UNIT: prints the files of a unit's EnvironmentFile.
environment_files() {
    systemctl show --property=EnvironmentFiles "$1" 2>/dev/null | sed -n 's/^EnvironmentFiles=\(.*\) (ignore_errors=.*)$/\1/p'
}

# assignments: prints the words of standard input, one per line, without their quotes.
assignments() {
    awk '
        {
            word = quote = ""
            for (at = 1; at <= length($0); at++) {
                letter = substr($0, at, 1)
                if (letter == "\\" && quote != "\047") word = word substr($0, ++at, 1)
                else if (letter == quote) quote = ""
                else if (quote == "" && (letter == "\"" || letter == "\047")) quote = letter
                else if (letter == " " && quote == "") { if (word != "") print word; word = "" }
                else word = word letter
            }
            if (word != "") print word
        }'
}

# file_variables FILE: prints the variables of a file for EnvironmentFile. A value may go on in the
# next line, after a backslash or in quotes, as in kubespray's kubelet.env.
file_variables() {
    awk '
        { sub(/\r$/, "") }
        text == "" && /^[ \t]*[#;]/ { next }
        {
            text = text $0
            if (sub(/\\$/, "", text)) next
            rest = text
            gsub(/\\./, "", rest)
            sub(/^[^=]*=[ \t]*/, "", rest)
            quote = substr(rest, 1, 1)
            if ((quote == "\"" || quote == "\047") && index(substr(rest, 2), quote) == 0) { text = text " "; next }
            print text
            text = ""
        }
        END { if (text != "") print text }' "$1" 2>/dev/null | sed -n 's/\r$//; s/^[[:space:]]*\([A-Za-z_][A-Za-z0-9_]*=\)"\(.*\)"[[:space:]]*$/\1\2/p; t
        s/^[[:space:]]*\([A-Za-z_][A-Za-z0-9_]*=\)'\''\(.*\)'\''[[:space:]]*$/\1\2/p; t
        s/^[[:space:]]*\([A-Za-z_][A-Za-z0-9_]*=.*\)$/\1/p'
}

# flags LONG [SHORT]: prints each value of a flag in the file `words`, as flags_in does.
flags() {
    flags_in "$@" <"$scratch/words"
}

# flag LONG [SHORT]: prints the last value of a flag.
flag() {
    flags "$@" >"$scratch/flag" && tail -n 1 "$scratch/flag"
}

# variable NAME: prints a variable in the file `environment`.
variable() {
    sed -n "s/^$1=//p" "$scratch/environment" | tail -n 1
}

# --- found later: the probe has this part too ---

# flags_in LONG [SHORT]: prints each value of a flag in standard input, which has a word of a
# daemon's arguments in each line; the values are printed one per line. The value
# follows "=", the short flag directly, or is the next word; fails if the flag is missing. A flag
# without a value prints an empty line. LONG is an extended regular expression.
flags_in() {
    awk -v long="$1" -v short="${2-}" '
        function end() { if (wanted) print ""; wanted = 0 }
        wanted && !/^-/ { print; wanted = 0; next }
        { end() }
        {
            name = $0
            sub(/=.*/, "", name)
            if (name ~ "^--?(" long ")$" || (short != "" && name == "-" short)) {
                found = 1
                if (name == $0) wanted = 1
                else print substr($0, length(name) + 2)
            } else if (short != "" && $0 ~ "^-" short "[^=]") {
                found = 1
                print substr($0, 3)
            }
        }
        END { end(); exit !found }'
}

# main_process UNIT: prints the number of the unit's main process; nothing if it doesn't run.
main_process() {
    timeout 5 systemctl show --property=MainPID "$1" 2>/dev/null | sed -n 's/^MainPID=\([1-9][0-9]*\)$/\1/p'
}

# Sets `foreign` to software on this host that contains its own container engine, which these scripts
# do not configure: k0s, and snaps, whose programs see other files than the host's.
# shellcheck disable=SC2034 # callers read this variable
find_foreign() {
    foreign=
    for folder in etc/systemd/system usr/local/lib/systemd/system usr/lib/systemd/system lib/systemd/system; do
        for file in k0sworker k0scontroller; do
            [ ! -e "$root/$folder/$file.service" ] || foreign="k0s"
        done
    done
    # snapd's folder is below /var/lib on systems without classic snaps, such as Fedora (snapd,
    # dirs/dirs.go, SnapMountDir).
    for snap in microk8s docker k8s; do
        [ ! -e "$root/snap/$snap/current" ] && [ ! -e "$root/var/lib/snapd/snap/$snap/current" ] ||
            foreign="${foreign:+$foreign }snap-$snap"
    done
}
