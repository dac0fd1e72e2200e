#!/bin/sh
# Builds one package repository: build.sh apt|dnf good|none|other|broken KEY. An apt repository is
# flat, and also has a suite `simulated` with an empty component `main` and a component `extra` with
# all packages. The script runs in the builder's root with the repositories' folder at
# /mnt/repositories, and packs the contents of draft/packages/ into draft/repository. Signing keys
# are created at the first use, only for these repositories.
set -eu
form=$1 signature=$2 signer=$3
cd /mnt/repositories
export GNUPGHOME=/mnt/repositories/gnupg HOME=/tmp SOURCE_DATE_EPOCH=1700000000 LC_ALL=C.UTF-8
if [ ! -f keys/ours.asc ]; then
    rm -rf keys gnupg
    (umask 077 && mkdir gnupg)
    mkdir keys
    for name in ours other; do
        gpg --batch --quiet --passphrase '' --quick-generate-key \
            "simulated $name <$name@gpu-cluster.invalid>" rsa2048 sign never
        gpg --batch --quiet --armor --export "$name@gpu-cluster.invalid" >"keys/$name.new"
    done
    mv keys/other.new keys/other.asc
    mv keys/ours.new keys/ours.asc
fi

sign() {
    gpg --batch --quiet --yes --local-user "$signer@gpu-cluster.invalid" "$@"
}

out=draft/repository
mkdir "$out"
for package in draft/packages/*; do
    if [ "$form" = apt ]; then
        dpkg-deb --root-owner-group -Zgzip -z1 --build "$package/tree" "$out/${package##*/}_all.deb" >/dev/null
    else
        mkdir -p /tmp/rpm
        rpmbuild --quiet -bb --define "_topdir /tmp/rpm" --define "_rpmdir $PWD/$out" \
            --define "_tree $PWD/$package/tree" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
            --define "_binary_payload w1.gzdio" "$package/spec" >draft/log 2>&1 || { cat draft/log >&2; exit 1; }
    fi
done
if [ "$form" = apt ]; then
    cd "$out"
    apt-ftparchive packages . >Packages
    gzip -nk Packages
    apt-ftparchive -o APT::FTPArchive::Release::Suite=simulated \
        -o APT::FTPArchive::Release::Origin=gpu-cluster release . >../Release
    mv ../Release Release
    suite=dists/simulated
    mkdir -p "$suite/main/binary-amd64" "$suite/extra/binary-amd64"
    : >"$suite/main/binary-amd64/Packages"
    cp Packages "$suite/extra/binary-amd64/Packages"
    (cd "$suite" && apt-ftparchive -o APT::FTPArchive::Release::Suite=simulated \
        -o APT::FTPArchive::Release::Codename=simulated -o APT::FTPArchive::Release::Architectures=amd64 \
        -o "APT::FTPArchive::Release::Components=main extra" release . >../Release)
    mv dists/Release "$suite/Release"
    if [ "$signature" != none ]; then
        for folder in . "$suite"; do
            sign --clearsign -o "$folder/InRelease" "$folder/Release"
            sign --armor --detach-sign -o "$folder/Release.gpg" "$folder/Release"
        done
    fi
    if [ "$signature" = broken ]; then
        sed -i 's/^Suite: simulated/Suite: changed/' InRelease Release
    fi
else
    if [ "$signature" != none ]; then
        rpmsign --define "__gpg /usr/bin/gpg" --define "_gpg_name $signer@gpu-cluster.invalid" --addsign "$out"/*.rpm >draft/log 2>&1 ||
            { cat draft/log >&2; exit 1; }
    fi
    createrepo_c --quiet "$out"
    if [ -f draft/modules.yaml ]; then
        modifyrepo_c --mdtype=modules draft/modules.yaml "$out/repodata" >draft/log 2>&1 || { cat draft/log >&2; exit 1; }
    fi
    if [ "$signature" != none ]; then
        sign --armor --detach-sign -o "$out/repodata/repomd.xml.asc" "$out/repodata/repomd.xml"
    fi
    if [ "$signature" = broken ]; then
        sed -i 's/<revision>/<revision>1/' "$out/repodata/repomd.xml"
    fi
fi
