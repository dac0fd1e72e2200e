# The proxy by which this host reaches repositories and registries, for what these scripts start. curl
# reads http_proxy in lower case alone, others both. Sources: curl(1), apt-transport-http(1),
# dnf.conf(5).

[ -z "${GC_HTTP_PROXY-}" ] || export http_proxy="$GC_HTTP_PROXY" HTTP_PROXY="$GC_HTTP_PROXY"
[ -z "${GC_HTTPS_PROXY-}" ] || export https_proxy="$GC_HTTPS_PROXY" HTTPS_PROXY="$GC_HTTPS_PROXY"
[ -z "${GC_NO_PROXY-}" ] || export no_proxy="$GC_NO_PROXY" NO_PROXY="$GC_NO_PROXY"
