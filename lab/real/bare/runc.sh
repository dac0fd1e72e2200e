#!/bin/sh
# Runs before the real runc. On a machine without CAP_SYS_RESOURCE no process can have a lower OOM
# score than its parent (proc(5), oom_score_adj), so containers keep the score of their runtime.
bundle=
previous=
for word in "$@"; do
    [ "$previous" != --bundle ] || bundle=$word
    previous=$word
done
[ ! -f "$bundle/config.json" ] ||
    sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
exec /usr/sbin/runc.real "$@"
