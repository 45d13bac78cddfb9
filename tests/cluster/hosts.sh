# shellcheck shell=bash disable=SC2034,SC2154,SC2317
# Hosts on one machine, sourced by tests/cluster/inside. Each has a name, an address, processes, a
# /tmp and a /dev/shm of its own, and an sshd; they meet on a bridge. All of it lies in namespaces
# that nobody else can enter by a name, so that it is gone with the last process, whatever happens:
#
#   lab                 net: the bridge   mount: /run is a tmpfs   pid: sees the processes of all
#    `- node1, node2    net: eth0, 10.77.0.1   mount, uts, ipc, pid: its own
#
# /run/cluster is the same folder on all hosts, as a home on NFS is; root's home lies there.
lab=/run/cluster

# hosts_begin N: node1 to nodeN
hosts_begin() {
  local i
  mount -t tmpfs -o mode=755 lab /run
  mkdir -p "$lab/bin" "$lab/pids" "$lab/home/.ssh" "$lab/home/.openmpi" /run/sshd /run/lock /run/munge
  export HOME=$lab/home
  ip link set lo up
  ip link add cluster type bridge
  ip link set cluster up
  {
    echo "127.0.0.1 localhost"
    for ((i = 1; i <= $1; ++i)); do echo "10.77.0.$i node$i"; done
  } >"$lab/hosts"
  # an account that is locked for passwords ("!") may not come in by a key either
  sed 's/^root:[^:]*:/root:*:/' /etc/shadow >"$lab/shadow"
  sed "s|^root:.*|root:x:0:0:root:$lab/home:/bin/bash|" /etc/passwd >"$lab/passwd"
  chmod 600 "$lab/shadow"
  for i in hosts shadow passwd; do mount --bind "$lab/$i" "/etc/$i"; done
  make_ssh
  for ((i = 1; i <= $1; ++i)); do start_host "$i" || return; done
}

make_ssh() {
  local ssh=$lab/home/.ssh
  ssh-keygen -q -t ed25519 -N "" -f "$lab/host_key"
  ssh-keygen -q -t ed25519 -N "" -f "$ssh/id_ed25519"
  cp "$ssh/id_ed25519.pub" "$ssh/authorized_keys"
  sed "s/^/node* /" "$lab/host_key.pub" >"$ssh/known_hosts"
  # both ends miss the other after some seconds
  printf '%s\n' "BatchMode yes" "LogLevel ERROR" "ServerAliveInterval 3" "ServerAliveCountMax 3" >"$ssh/config"
  printf '%s\n' "HostKey $lab/host_key" "PermitRootLogin prohibit-password" "PasswordAuthentication no" \
    "UsePAM no" "StrictModes no" "PidFile none" "ClientAliveInterval 3" "ClientAliveCountMax 3" >"$lab/sshd_config"
}

# start_host I: its first process is the script `host`, which marks its start
start_host() {
  local i=$1 name=node$1 pid
  unshare --net --uts --mount --ipc --pid --fork --kill-child "$here/host" "$name" &>"$lab/$name.log" &
  await 300 "the first process of $name" test -s "$lab/pids/$name" || return
  pid=$(pgrep -P $!) # $! is unshare
  echo "$pid" >"$lab/pids/$name"
  ip link add "$name" type veth peer name eth0 netns "$pid"
  ip link set "$name" master cluster up
  on "$name" ip link set lo up
  on "$name" ip addr add "10.77.0.$i/24" dev eth0
  on "$name" ip link set eth0 up
  on "$name" /usr/sbin/sshd -f "$lab/sshd_config" -E "$lab/$name.sshd.log"
}

# on HOST COMMAND...: as if typed there
on() {
  local pid
  pid=$(<"$lab/pids/$1")
  shift
  nsenter -t "$pid" -m -u -i -n -p -- "$@"
}

# await SECONDS WHAT COMMAND...: until the command succeeds; the seconds are enough for any machine
await() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" &>/dev/null; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "waited in vain for $what"
      return 1
    fi
    sleep 0.1
  done
}

# limit HOST RATE: a cable of so many bits a second in either direction
limit() {
  tc qdisc replace dev "$1" root tbf rate "$2" burst 32kb latency 400ms &&
    on "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 32kb latency 400ms
}

link() { ip link set "$1" "$2"; }       # link HOST down|up: the cable, not the host's own end
kill_host() { on "$1" kill -KILL -1; }  # every process there; its addresses stay
