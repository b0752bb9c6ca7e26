# C++ and its standard library, by both compilers.

failed=0
for compiler in '' -clang; do
    for part in language library system; do
        plusplus-$part$compiler || failed=1
    done
done
exit "$failed"
