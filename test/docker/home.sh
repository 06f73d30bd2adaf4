# The first process of the Engine's namespaces: it makes the home, and starts and ends dockerd as it is told on standard input,
# a word a line, each answered with "done". When it ends, because the pipe closes for instance, the kernel ends everything
# in the namespaces and takes mounts, bridge and firewall rules with them.
#
# $1 the data's folder, $2 dockerd's log, and then dockerd and its arguments.
data=$1 log=$2
shift 2
mount --make-rprivate / &&
  mount -t proc proc /proc &&
  mount -t tmpfs tmpfs "$data" &&
  mount -t tmpfs tmpfs /etc/docker &&
  mount -t tmpfs tmpfs /run &&
  ip link set lo up || exit 1
echo "{}" >/run/daemon.json
echo done
while read -r order; do
  case $order in
  up)
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    ;;
  down) kill -TERM "$pid" && wait "$pid" ;;
  kill) kill -KILL "$pid" && wait "$pid" ;;
  esac 2>>"$log"
  echo done
done
