# Ends with a status other than 0: the launcher must notice.

echo "this script ends with status 7"
exit 7
