# Ends the server of this folder hard; with `restart`, starts it then, and waits until it answers.
# Before these lines stand `server` (the words of its command), `port`, `ask` and `answer`.

cd "$(dirname "$0")" || exit

connected() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

answers() (
    exec 3<>"/dev/tcp/127.0.0.1/$port" && printf '%s' "$ask" >&3 || exit
    read -r -t 5 line <&3 && [[ $line == "$answer"* ]]
) 2>/dev/null

give_up() {
    echo "$1" >&2
    [[ ! -f log ]] || cat log >&2
    exit 1
}

pause() {
    ((SECONDS <= 60)) || give_up "$1 after 60 s"
    sleep 0.02
}

if [[ -f pid ]]; then
    kill -KILL "$(<pid)"
    rm pid
fi
while connected; do pause "port $port is still taken"; done
[[ $1 == restart ]] || exit 0

# In a group of its own: no Ctrl-C reaches it.
set -m
sh -c 'echo $$ >pid && exec "$@"' sh "${server[@]}" </dev/null >log 2>&1 &
until answers; do
    if ! kill -0 $! 2>/dev/null; then
        rm -f pid
        give_up 'it ended'
    fi
    pause 'it does not answer'
done
