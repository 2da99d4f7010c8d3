/** Every text of the page. `zh.ts` has the same keys. */
export const en = {
  home: "Sessions", inbox: "Inbox", newSession: "New session", machines: "Machines", usage: "Usage", settings: "Settings",
  signIn: "Sign in", signOut: "Sign out", cancel: "Cancel", close: "Close", save: "Save", delete: "Delete", copy: "Copy", copied: "Copied",
  retry: "Try again", discard: "Discard", back: "Back", more: "More", search: "Search", loading: "Loading…", justNow: "now",
  unreachable: "The hub does not answer.", skipToContent: "Skip to content", mainNavigation: "Main",
  online: "Connected", connecting: "Connecting…", offline: "Not connected. What you see may be old; it is brought up to date when the hub answers again.",
  offlineShort: "Not connected",
  // Sign in
  signInTitle: "Sign in to this hub", signInLead: "Enter a code from `farsteer pair`, or an access token. The owner’s is in the file below on the hub’s machine; others are made with `farsteer token create`.",
  accessToken: "Access token or pairing code", codeWrong: "This code is wrong, was used or has expired.", signingIn: "Signing in…", tokenWrong: "The hub does not know this token, or it has expired.",
  tokenLimited: "Too many failed attempts. Wait a minute.", wasSignedOut: "You were signed out: {reason}.",
  signInNote: "The token is exchanged for one of this browser, which you can revoke in Settings. The one you typed is not kept.",
  // Home
  needsYou: "Needs you", running: "Running", recent: "Recent", noSessions: "No sessions yet",
  noSessionsLead: "Start an agent in a directory of one of your machines. It keeps working when you close this page.",
  noMatch: "Nothing matches.", searchSessions: "Search sessions", listFailed: "The sessions could not be read.",
  allMachines: "All machines", allAgents: "All agents", noMachine: "No machine is connected",
  noMachineLead: "Run `farsteer up` or `farsteer runner` on a machine, and it appears here.",
  waitsForYou: "waits for you", working: "working", starting: "starting", idle: "idle", stopped: "stopped", failed: "failed",
  unreachableState: "machine not connected", waiting: "waits for you", inTerminal: "open in a terminal", untitled: "Untitled session",
  // Session
  message: "Message", messageTo: "Message {agent}", messageWhileBusy: "Add to the queue", send: "Send", stop: "Stop", stopping: "Stopping…", interrupt: "Interrupt and send now",
  attach: "Attach files", removeFile: "Remove {name}", fileTooLarge: "{name} is too large. A message can have up to {size} MB.", dropHere: "Drop files to attach them",
  sending: "Sending…", sentWhenOnline: "Sent when the hub answers", refused: "Not taken: {reason}", editAgain: "Edit again",
  queued: "Waiting ({n})", sendNow: "Send now", cancelMessage: "Cancel", handedOver: "Being handed to the agent", filesOf: "{n} files",
  older: "Loading older messages…", beginning: "Beginning of the session", toEnd: "Go to the end",
  sessionGone: "This session does not exist any more.", sessionFailedToLoad: "The session could not be read.",
  emptySession: "Nothing has been said yet.", thought: "Thought", thinking: "Thinking…", partial: "broken off", subagent: "Sub-agent",
  plan: "Plan", planDone: "{done} of {all} done", output: "Output", showAll: "Show all {n} lines", showLess: "Show less",
  input: "Input", files: "Files", toolRunning: "running", toolDone: "done", toolFailed: "failed", toolPending: "waiting", added: "{n} lines added", removed: "{n} lines removed", newFile: "new file",

  permissionMode: "Permission mode", model: "Model", effort: "Effort", defaultModel: "Default model", defaultEffort: "Default effort", otherModel: "Another model…", modelName: "Name of the model",
  modeDefault: "Ask first", modeAcceptEdits: "Accept edits", modePlan: "Plan only", modeReadOnly: "Read only", modeSafeYolo: "Sandboxed", modeYolo: "Never ask", modeBypass: "Bypass permissions",
  modeDefaultHint: "Asks before it changes anything", modeAcceptEditsHint: "Edits files without asking, asks for the rest", modePlanHint: "Reads and plans, changes nothing", modeReadOnlyHint: "Reads, changes nothing",
  modeSafeYoloHint: "Edits and runs commands, asks for the rest", modeYoloHint: "Does everything without asking", modeBypassHint: "Does everything without asking",
  effort_low: "Low", effort_medium: "Medium", effort_high: "High", effort_xhigh: "Highest",
  rename: "Rename", title: "Title", fork: "Fork", forkHere: "Fork before this", forkAll: "Fork into a new session", rewindHere: "Rewind to before this", exportMarkdown: "Export as Markdown", exportJsonl: "Export as JSONL",
  deleteSession: "Delete session", deleteQuestion: "Delete this session, its history and its agent’s process? This cannot be undone.",
  rewindQuestion: "Remove this message and everything after it? Waiting messages are cancelled.", restoreFiles: "Restore the files to that time", noFileRestore: "This agent cannot restore files: they stay as they are.",
  rewound: "Rewound. Files: {status}.", endProcess: "End the process", details: "Details", sessionMenu: "Session menu", contextFull: "Context {n}%", tokens: "{n} tokens", directory: "Directory", machine: "Machine", agent: "Agent", branch: "Branch",
  copyMessage: "Copy message", messageMenu: "Actions for this message", slashCommands: "Commands",
  waitingForAnswer: "Waiting for your answer",
  // Notes in the log
  turnEnded: "Turn ended: {reason}", reason_cancelled: "stopped", reason_failed: "the agent reported an error", reason_crashed: "the agent’s process ended", reason_lost: "the runner ended; what the agent did after that is unknown",
  reason_refusal: "the model refused", reason_max_tokens: "the model’s limit of tokens", reason_max_turn_requests: "the agent’s limit of steps",
  message_cancelled: "A message was cancelled", message_failed: "A message failed", message_unknown: "The agent ended before it confirmed a message. It was not sent again.",
  launchEnded: "The agent’s process ended: {reason}", nowSet: "Now {what}", compacted: "The agent has summarised the beginning of its context", rewoundNote: "Rewound to before this point", by: "by {name}",
  // Approvals
  asksPermission: "Permission", asksQuestion: "Question", asksPlan: "Plan to approve", allow: "Allow once", allowAlways: "Always in this session", deny: "Deny", denyStop: "Deny and stop", answer: "Answer", decline: "Decline to answer", approvePlan: "Approve", rejectPlan: "Reject",
  ownAnswer: "Your own answer", reasonField: "Reason or what to do instead (optional)", explain: "With a reason…", nothingWaits: "Nothing waits for you", nothingWaitsLead: "Permissions, questions and plans of all sessions appear here.",
  actions: "{n} actions", setsMode: "then: {mode}", expires: "Expires {time}", tooLate: "Too late: already {outcome}", tooLateBy: "Too late: already {outcome} by {name}",
  outcome_approved: "allowed", outcome_approved_for_session: "allowed for this session", outcome_denied: "denied", outcome_abort: "denied, turn stopped", outcome_timed_out: "expired without an answer", outcome_cancelled: "no longer asked", outcomeAnswered: "answered",
  effectAllow: "Runs it this time", effectAlways: "Runs it, and does not ask for this again in this session", effectDeny: "Does not run it; the agent goes on", effectStop: "Does not run it and ends the turn",
  noScopeApprove: "This browser’s token may not answer.", chooseOne: "Choose one", chooseSome: "Choose any", waitsHere: "{n} more waiting", chosen: "chosen",
  // New session
  newSessionLead: "An agent starts in a directory of a machine and keeps working when you leave.", recentDirectories: "Recent directories", directoryHint: "An absolute path on {machine}", directoryRoots: "Allowed: {roots}",
  firstMessage: "First message", firstMessageHint: "What should it do? You can also send it later.", useWorktree: "Work in a new Git worktree", worktreeName: "Name of the worktree and its branch", create: "Start", creating: "Starting…", createFailed: "The session was not started", notAvailable: "not available", toInstall: "Install", toLogIn: "Log in",
  cap_resume: "resumes", cap_rewind: "rewinds", cap_fork: "forks", cap_steer: "steers", cap_fileRestore: "restores files", cap_approvals: "asks", cap_images: "images", cap_plans: "plans", cap_questions: "questions", cap_usage: "reports usage",
  can: "Can", cannot: "Cannot",
  // Machines
  noMachines: "No machines yet", connected: "connected", notConnected: "not connected", lastSeen: "last seen {time}", version: "version {version}", showMissing: "Show {n} that are not installed", hideMissing: "Hide those that are not installed", sessionsCount: "{n} sessions", foreign: "{n} sessions of another hub",
  // Usage
  byDay: "Day", byModel: "Model", byAgent: "Agent", byMachine: "Machine", groupBy: "By", noUsage: "No usage yet", noUsageLead: "Tokens and cost appear here when agents report them.", turns: "Turns", inputTokens: "Input", outputTokens: "Output", cacheTokens: "Cache", cost: "Cost", total: "Total", unnamed: "unnamed", lastDays: "{n} days",
  // Settings
  appearance: "Appearance", theme: "Theme", themeSystem: "As the system", themeLight: "Light", themeDark: "Dark", language: "Language", access: "Access", thisBrowser: "This browser", tokensTitle: "Access tokens", revoke: "Revoke", revokeQuestion: "Revoke “{label}” and every token that was made with it? What uses them stops at once.", noAdmin: "This browser’s token may not manage tokens.", isPaired: "This browser was paired. Its token is valid until somebody revokes it.", keepsTyped: "This browser keeps the token you typed, because that may not make others.", signedInAs: "Signed in as {label} in {namespace}", used: "used {time}", neverUsed: "never used", expiresOn: "expires {time}", neverExpires: "does not expire", signOutUnsent: "{n} messages are not sent yet and will be lost. Sign out?", notRevoked: "Signed out here. The hub did not answer, so this browser’s token is still valid: revoke it in Settings of another browser.", about: "About", apiDocs: "API documentation",
  // Keys and palette
  keys: "Keys", keysLead: "Outside of a text field:", palette: "Go to or do…", key_palette: "Search and commands", key_help: "This list", key_new: "New session", key_home: "Sessions", key_inbox: "Inbox", key_next: "Next session", key_previous: "Previous session", key_compose: "Write a message", key_answer: "Allow, always, deny, deny and stop", key_number: "Choose an answer", key_send: "Send; Shift-Enter begins a new line", key_now: "Interrupt and send now", key_escape: "Leave the field, close", nothingFound: "Nothing found",
} as const;
