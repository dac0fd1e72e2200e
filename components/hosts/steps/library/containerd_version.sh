# Version of the containerd in `engine_program`, or else of the one on PATH.

find_version() {
    # Format: "containerd github.com/containerd/containerd/v2 v2.1.4 <commit>"
    version=$(ask 90 "${engine_program:-containerd}" --version)
    version=${version#* * }
    version=${version%% *}
    version=${version#v}
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%[!0-9]*}
}
