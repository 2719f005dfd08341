#!/usr/bin/env bash
# One rank of a training job does something wrong, or dies: every rank must be told, in words that name the rank and, where it is about one,
# the tensor. Called as: trainer.sh TUTTI TRAINER
tutti=$1
trainer=$2
failures=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# told WHAT COUNT PATTERN: that many ranks print words that match
told() {
    for transport in shm tcp; do
        TUTTI_TRANSPORT=$transport timeout 60 "$tutti" run -n 3 --timeout 2s -- "$trainer" "$1" >"$out" 2>&1
        [ "$(grep -Ec "$3" "$out")" = "$2" ] || {
            echo "FAILED: $1 over $transport: not told to $2 ranks '$3': $(cat "$out")"
            failures=$((failures + 1))
        }
    done
}

told twice 3 'was told: .*rank 2.*tensor gate.w is ready once more'
told missing 3 'was told: .*rank 2.*tensor gate.w was not ready in step 4'
told torn 3 'was told: .*rank 2.*tensor fc.w: [0-9]+ of its [0-9]+ parts were not ready in step 4'
told again 3 'was told: .*rank 2.*part 1 of tensor fc.w is ready twice in step 4'
told some 2 'was told: .*step 4, reduce-scatter of [a-z0-9.]+( to [a-z0-9.]+)?: rank 2 .*not entered'
told differs 3 'was told: tensor 3 differs: rank 0 has norm.w .* rank 2 has norm.b'
told options 3 'was told: options differ: rank 0 has policy bucket, rank 2 has policy wfbp'
told kill 2 'was told: a rank failed: .*rank 2 .*dead'
echo "$failures failures"
[ "$failures" = 0 ]
