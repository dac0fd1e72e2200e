# Proxy for connections of these scripts to repositories and registries. curl reads http_proxy only
# in lower case, other programs read both. Sources: curl(1), apt-transport-http(1), dnf.conf(5).

[ -z "${GC_HTTP_PROXY-}" ] || export http_proxy="$GC_HTTP_PROXY" HTTP_PROXY="$GC_HTTP_PROXY"
[ -z "${GC_HTTPS_PROXY-}" ] || export https_proxy="$GC_HTTPS_PROXY" HTTPS_PROXY="$GC_HTTPS_PROXY"
[ -z "${GC_NO_PROXY-}" ] || export no_proxy="$GC_NO_PROXY" NO_PROXY="$GC_NO_PROXY"
