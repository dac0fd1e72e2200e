# Reads a running container engine's configuration over its CRI socket, with programs that
# distributions have: perl-base is essential on Debian and Ubuntu, curl comes with dnf. Sources:
# gRPC over HTTP/2 (grpc/grpc doc/PROTOCOL-HTTP2.md); RFC 9113 and 7541; k8s.io/cri-api,
# runtime/v1/api.proto: StatusRequest{bool verbose = 1}, StatusResponse{map info = 2}.

# --- found later: the probe has this part too ---

# cri_call SOCKET METHOD: prints the raw bytes of the engine's response to a request whose field 1 is
# true (StatusRequest, verbose; unknown in other requests); fails if the socket does not respond, or if
# its server has no such method.
# shellcheck disable=SC2016 # a Perl program
cri_call() {
    if command -v perl >/dev/null 2>&1; then
        timeout 5 perl -e '
            use Socket;
            my ($path, $call) = @ARGV;
            socket(my $engine, PF_UNIX, SOCK_STREAM, 0) or die "$!\n";
            connect($engine, sockaddr_un($path)) or die "$path: $!\n";
            sub frame { my ($type, $flags, $stream, $data) = @_;
                return substr(pack("N", length $data), 1) . pack("CCN", $type, $flags, $stream) . $data }
            sub literal { my ($start, $value) = @_; return $start . chr(length $value) . $value }
            # Names of the static table by their number; numbers from 15 on need a second byte.
            my $head = "\x83\x86" . literal("\x04", $call) . literal("\x01", "localhost")
                . literal("\x0f\x10", "application/grpc") . literal(literal("\x00", "te"), "trailers");
            my $window = 1 << 24;
            syswrite($engine, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . frame(4, 0, 0, pack("nN", 4, $window))
                . frame(8, 0, 0, pack("N", $window)) . frame(1, 4, 1, $head)
                . frame(0, 1, 1, "\0" . pack("N", 2) . "\x08\x01"));
            my ($in, $answer, $ended) = ("", "", 0);
            while (!$ended && sysread($engine, $in, 65536, length $in)) {
                while (length $in >= 9) {
                    my $size = unpack("N", "\0" . substr($in, 0, 3));
                    last if length $in < 9 + $size;
                    my ($type, $flags, $stream) = unpack("CCN", substr($in, 3, 6));
                    my $data = substr($in, 9, $size);
                    $in = substr($in, 9 + $size);
                    $answer .= $data if $type == 0 && $stream == 1;
                    die "$path: more than 4 MiB\n" if length $answer > 1 << 22;
                    $ended = 1 if $type == 7 || $stream == 1 && ($type == 3 || $type < 2 && $flags & 1);
                }
            }
            die "$path: no CRI answers\n" if length $answer < 6;
            print substr($answer, 5);' "$1" "/runtime.v1.RuntimeService/$2"
    else
        printf '\000\000\000\000\002\010\001' | timeout 5 curl -sS --http2-prior-knowledge \
            --unix-socket "$1" -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- \
            "http://localhost/runtime.v1.RuntimeService/$2" | head -c 4194304 | tail -c +6
    fi
}

# cri_config SOCKET: prints the configuration in the engine's StatusResponse, as `key.key value`.
cri_config() {
    # The response is binary protobuf; its strings are unencoded between the other bytes.
    cri_call "$1" Status | LC_ALL=C tr '\000-\037\177' '\n' | sed -n 's/^[^{]*\({"containerd":.*}\)[^}]*$/\1/p' |
        json_lines /dev/stdin | json_paths
}

# cri_answers SOCKET DEFAULT: returns true if the engine has the NVIDIA runtime, with DEFAULT, which
# may be empty, as its default runtime. The configuration is left in the file `cri`, where a script
# has a scratch folder.
cri_answers() {
    configuration=$(cri_config "$1")
    [ ! -d "${scratch-/nowhere}" ] || printf '%s' "$configuration" >"$scratch/cri"
    printf '%s\n' "$configuration" | grep -q '^containerd\.runtimes\.nvidia\.runtimeType ' || return 1
    case $2 in '' | runc) return 0 ;; esac
    printf '%s\n' "$configuration" | grep -Fqx "containerd.defaultRuntimeName \"$2\""
}

# cri_cgroup_driver SOCKET: prints the cgroup driver that the engine tells the kubelet; fails if the
# engine does not tell it. RuntimeConfigResponse{LinuxRuntimeConfiguration linux = 1{CgroupDriver
# cgroup_driver = 1}}, with 0 for systemd, 1 for cgroupfs; containerd answers it from 2.0 on, CRI-O
# from 1.28 on (kubernetes/enhancements, KEP-4033).
cri_cgroup_driver() {
    case $(cri_call "$1" RuntimeConfig 2>/dev/null | od -A n -t x1 | tr -d ' \n') in
        0a00 | 0a020800) echo systemd ;;
        0a020801) echo cgroupfs ;;
        *) return 1 ;;
    esac
}

# runtimes_of FILE: prints the names of the runtimes in the output of cri_config.
runtimes_of() {
    sed -n 's/^containerd\.runtimes\.\(.*\)\.runtimeType .*/\1/p' "$1" | paste -s -d ' ' -
}
