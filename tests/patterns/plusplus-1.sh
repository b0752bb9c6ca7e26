# The servers of plusplus-0.sh.

for server in plusplus-pair-clang plusplus-pair; do
    $server serve || exit
done
