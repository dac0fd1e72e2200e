#!/bin/sh
# Open a pull request with what `make facts` or `make proofs` wrote, as `propose.sh facts`; do nothing
# if it wrote nothing new. The text of a pull request of facts lists the lines of documents that name
# a version without support (a person has to change these lines), that of proofs the page's last line.
set -eu

case $1 in
    facts)
        title="Take the security floors of NVIDIA's newest bulletins and ends of support"
        paths="policies/gpu_rules/facts docs/support.md docs/reference/facts.md"
        text() { make --silent facts; }
        ;;
    proofs)
        title="Record what the proofs showed"
        paths="docs/proofs.md"
        text() { tail -n 1 docs/proofs.md; }
        ;;
esac
# shellcheck disable=SC2086 # several paths without blanks
if git diff --quiet -- $paths; then exit 0; fi
told=$(text)
git config user.name github-actions
git config user.email github-actions@users.noreply.github.com
git switch --create "$1/$GITHUB_RUN_ID"
# shellcheck disable=SC2086 # several paths without blanks
git commit --message "$title" -- $paths
gh auth setup-git
git push --set-upstream origin "$1/$GITHUB_RUN_ID"
gh pr create --title "$title" --body "$told"
