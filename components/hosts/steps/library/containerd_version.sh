# Version of the containerd on PATH.

find_version() {
    # Format: "containerd github.com/containerd/containerd/v2 v2.1.4 <commit>"
    version=$(ask 90 containerd --version)
    version=${version#* * }
    version=${version%% *}
    version=${version#v}
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%[!0-9]*}
}
