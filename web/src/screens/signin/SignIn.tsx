import { useState } from "preact/hooks";
import { signIn, signedOutBy, takePairingCode } from "../../api/account.ts";
import { ApiError } from "../../api/request.ts";
import { messageOf } from "../../state/toasts.ts";
import { t } from "../../texts/index.ts";
import { Logo } from "../../ui/logo.tsx";

/** Takes an access token or a pairing code. It is sent in a body, never put into an address. */
export function SignIn() {
  const [token, setToken] = useState(takePairingCode);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn(token.trim());
      setToken("");
    } catch (error) {
      const status = error instanceof ApiError ? error.status : -1;
      setProblem(status === 401 ? t("tokenWrong") : status === 404 ? t("codeWrong") : status === 429 ? t("tokenLimited") : messageOf(error));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form onSubmit={(event) => void submit(event)} autocomplete="off">
        <Logo />
        <h1>{t("signInTitle")}</h1>
        {signedOutBy.value && !problem && <p class="notice" role="status">{t("wasSignedOut", { reason: signedOutBy.value })}</p>}
        <label for="token">{t("accessToken")}</label>
        <input id="token" type="password" required autofocus autocomplete="off" spellcheck={false} maxLength={512} value={token}
          aria-describedby="token-help" aria-invalid={problem !== null} onInput={(event) => setToken(event.currentTarget.value)} />
        {problem && <p class="problem" role="alert">{problem}</p>}
        <button type="submit" class="primary" disabled={isBusy || !token.trim()}>{t(isBusy ? "signingIn" : "signIn")}</button>
        <div id="token-help" class="muted small">
          <p>{t("signInLead").split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</p>
          <pre dir="ltr" tabIndex={0}>cat ~/.farsteer/token</pre>
          <p>{t("signInNote")}</p>
        </div>
      </form>
    </main>
  );
}
