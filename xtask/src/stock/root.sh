# Root logs in: tornod is started on demand, and both levels work. Then the machine goes down.
export PATH=/opt/torno:$PATH
bad() { echo "STOCK: FAILED: $*"; ok=no; }
ok=yes
echo "STOCK: begins"
uname -r
cat /proc/self/cgroup
mkdir -p /root/work && cd /root/work && echo hello > a.txt
for level in container gvisor; do
    said=$(torno run --isolation $level -- sh -c 'cat a.txt; id -u' < /dev/null) || bad "$level: run"
    [ "$said" = "$(printf 'hello\n1000')" ] || bad "$level: said $said"
done
torno doctor < /dev/null | grep -E '^(container|gvisor) '
# It has a group of its own, in which nobody else is.
grep -q '^0::/system.slice/run-.*scope/daemon$' "/proc/$(pgrep -o tornod)/cgroup" || bad "group"
[ $ok = yes ] && echo "STOCK: all went well"
for second in $(seq 300); do
    [ -e /tmp/guest-is-done ] && break
    sleep 1
done
systemctl poweroff
