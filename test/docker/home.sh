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
  mount -t tmpfs tmpfs /run &&
  mkdir /run/etc /run/etc.work &&
  mount -t overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/etc.work overlay /etc && # dockerd keeps a key in /etc/docker
  ip link set lo up || exit 1
echo "{}" >/run/daemon.json

# gone waits until the containerd of a dockerd that has ended is gone, too. The kernel kills it, and it falls to this process to
# be waited for; sleep's own end does that by the way. A dockerd that finds it half dead would wait for it in vain.
gone() {
  containerd=$(cat /run/docker/containerd/containerd.pid 2>/dev/null) || return 0
  while [ -n "$containerd" ] && [ -d "/proc/$containerd" ]; do sleep 0.05; done
}

echo done
while read -r order; do
  case $order in
  up)
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    ;;
  down)
    kill -TERM "$pid" && wait "$pid"
    gone
    ;;
  kill)
    kill -KILL "$pid" && wait "$pid"
    gone
    ;;
  esac 2>>"$log"
  echo done
done
