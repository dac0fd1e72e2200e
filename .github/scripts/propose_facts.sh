#!/bin/sh
# Open a pull request with the changes that `make facts` made; do nothing if there are none. The
# text of the pull request lists the lines of documents that name a version without support; a
# person has to change these lines.
set -eu

if git diff --quiet -- policies/gpu_rules/facts docs/support.md docs/reference/facts.md; then exit 0; fi
told=$(make --silent facts)
git config user.name github-actions
git config user.email github-actions@users.noreply.github.com
git switch --create "facts/$GITHUB_RUN_ID"
title="Take the security floors of NVIDIA's newest bulletins and ends of support"
git commit --message "$title" -- policies/gpu_rules/facts docs/support.md docs/reference/facts.md
gh auth setup-git
git push --set-upstream origin "facts/$GITHUB_RUN_ID"
gh pr create --title "$title" --body "$told"
