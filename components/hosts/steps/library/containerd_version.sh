# The version of the containerd on PATH.

find_version() {
    version=$(ask 90 containerd --version | awk '{ print $3 }')
    version=${version#v}
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%[!0-9]*}
}
