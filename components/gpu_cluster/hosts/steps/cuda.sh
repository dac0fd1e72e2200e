# Installs the CUDA Toolkit on the host from packages, or from its runfile without the driver in it.
# Source: CUDA Installation Guide for Linux, "Runfile Installation" (--silent, --toolkit,
# --toolkitpath, --no-man-page, --override), "Uninstallation" (bin/cuda-uninstaller).

# each_cuda_location COMMAND: calls COMMAND for each location; a declaration with locations
# redefines it.
each_cuda_location() { :; }

check_cuda() {
    require_manager
}

apply_cuda() {
    each_repository step_repository
    if [ "$GC_CUDA_SOURCE" = package ]; then
        # shellcheck disable=SC2086 # a list of words, split on purpose
        install_packages $GC_CUDA_PACKAGES
        return 0
    fi
    path=/usr/local/cuda-$GC_CUDA_VERSION
    if [ -x "$root$path/bin/cuda-uninstaller" ]; then
        ! recorded program "$path/bin/cuda-uninstaller --silent" ||
            effect program "$path/bin/cuda-uninstaller --silent"
    else
        have_runfile "CUDA toolkit" "$GC_CUDA_SHA256" each_cuda_location
        effect program "$path/bin/cuda-uninstaller --silent"
        # Only --toolkit: the driver in the same file is never installed.
        bounded "$GC_PACKAGE_RUN_LIMIT" sh "$runfile" --silent --toolkit --override --no-man-page \
            "--toolkitpath=$root$path" || fail_installer "the CUDA toolkit's installer failed (its own log is /var/log/cuda-installer.log): $(log_end)"
        [ -x "$root$path/bin/cuda-uninstaller" ] ||
            fail "found no $path/bin/cuda-uninstaller after the installation; wanted CUDA $GC_CUDA_VERSION; correct cuda.version, which must be the major and minor version of the runfile"
        did "CUDA toolkit $GC_CUDA_VERSION by runfile"
        rm -f -- "$root/var/cache/gpu-cluster/$GC_CUDA_SHA256.run"
    fi
    expect path "$path/bin/cuda-uninstaller"
}
