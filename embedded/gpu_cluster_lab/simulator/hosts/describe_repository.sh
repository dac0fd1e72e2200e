#!/bin/sh
# Writes the Release file of a built apt repository again, with the fields in draft/release as lines
# `Origin=Ubuntu`, and signs it: describe_repository.sh KEY. It runs as build_repository.sh does.
set -eu
cd /mnt/repositories
export GNUPGHOME=/mnt/repositories/gnupg HOME=/tmp LC_ALL=C.UTF-8
signer=$1
set --
while IFS= read -r field; do
    set -- "$@" -o "APT::FTPArchive::Release::$field"
done <draft/release
cd draft/repository
rm -rf dists InRelease Release.gpg
apt-ftparchive "$@" release . >../Release
mv ../Release Release
gpg --batch --quiet --yes --local-user "$signer@gpu-cluster.invalid" --clearsign -o InRelease Release
