# An ordinary user logs in, with subordinate ids and a service manager of its own.
export PATH=/opt/torno:$PATH
bad() { echo "STOCK: FAILED: $*"; ok=no; }
ok=yes
echo "STOCK: begins"
id
cat /proc/self/cgroup
mkdir -p ~/work && cd ~/work && echo hello > a.txt
for level in container gvisor; do
    said=$(torno run --isolation $level -- sh -c 'cat a.txt; id -u' < /dev/null) || bad "$level: run"
    [ "$said" = "$(printf 'hello\n1000')" ] || bad "$level: said $said"
done
torno doctor < /dev/null | grep -E '^(container|gvisor) '
[ $ok = yes ] && echo "STOCK: all went well"
touch /tmp/guest-is-done
