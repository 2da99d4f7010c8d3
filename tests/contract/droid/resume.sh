#!/bin/bash
DROID=~/.local/bin/droid
CWD=/tmp/droid-resume-clean   # needs to be a git repo
mkdir -p "$CWD" && cd "$CWD" && git init && echo test > README.md && git add . && git commit -m init

# ========== Turn 1: establish session, let AI remember password ==========
echo "=== TURN 1 ==="
(
  # Don't pass sessionId, let server auto-generate UUID
  printf '{"jsonrpc":"2.0","factoryApiVersion":"1.0.0","type":"request","id":"1","method":"droid.initialize_session","params":{"machineId":"m1","cwd":"%s","modelId":"kimi-k2.5","autonomyLevel":"auto-low"}}\n' "$CWD"
  sleep 5
  printf '{"jsonrpc":"2.0","factoryApiVersion":"1.0.0","type":"request","id":"2","method":"droid.add_user_message","params":{"text":"The password is DOLPHIN-2288. Just reply OK."}}\n'
  sleep 20
) | "$DROID" exec --input-format stream-jsonrpc --output-format stream-jsonrpc --cwd "$CWD" 2>/dev/null > /tmp/t1.jsonl &
PID1=$!; sleep 28; kill $PID1 2>/dev/null; wait $PID1 2>/dev/null

# Extract server-generated sessionId (UUID format)
OLD_SID=$(python3 -c "
import json
for line in open('/tmp/t1.jsonl'):
    line=line.strip()
    if not line: continue
    try:
        d=json.loads(line)
        sid=d.get('result',{}).get('sessionId','')
        if sid: print(sid); break
    except: pass
")
echo "Old sessionId: $OLD_SID"
# ——— droid process has exited ———

# ========== Turn 2: new process + load_session resume ==========
echo ""
echo "=== TURN 2 (load_session resume) ==="
(
  # 1. initialize_session (create new session, don't pass old sessionId)
  printf '{"jsonrpc":"2.0","factoryApiVersion":"1.0.0","type":"request","id":"1","method":"droid.initialize_session","params":{"machineId":"m1","cwd":"%s","modelId":"kimi-k2.5","autonomyLevel":"auto-low"}}\n' "$CWD"
  sleep 3
  # 2. load_session (load old session context)
  printf '{"jsonrpc":"2.0","factoryApiVersion":"1.0.0","type":"request","id":"2","method":"droid.load_session","params":{"sessionId":"%s"}}\n' "$OLD_SID"
  sleep 5
  # 3. Ask AI if it remembers the password
  printf '{"jsonrpc":"2.0","factoryApiVersion":"1.0.0","type":"request","id":"3","method":"droid.add_user_message","params":{"text":"What password did I tell you? Reply ONLY the password."}}\n'
  sleep 20
) | "$DROID" exec --input-format stream-jsonrpc --output-format stream-jsonrpc --cwd "$CWD" 2>/dev/null > /tmp/t2.jsonl &
PID2=$!; sleep 30; kill $PID2 2>/dev/null; wait $PID2 2>/dev/null

# ========== Verification ==========
python3 -c "
import json, sys
for line in open('/tmp/t2.jsonl'):
    line=line.strip()
    if not line: continue
    try:
        d=json.loads(line)
        # load_session returns historical message count
        r=d.get('result',{})
        if r.get('session') and d.get('id')=='2':
            msgs=r['session'].get('messages',[])
            print(f'load_session -> {len(msgs)} history messages')
        # AI reply
        n=d.get('params',{}).get('notification',{})
        if n.get('type')=='assistant_text_delta':
            sys.stdout.write(n.get('textDelta',''))
    except: pass
print()
"

grep -q 'DOLPHIN' /tmp/t2.jsonl \
  && echo 'RESULT: SUCCESS - AI remembered the password!' \
  || echo 'RESULT: FAILED'
