import { useEffect, useState } from "preact/hooks";
import { account, signOut } from "../../api/account.ts";
import { call, get } from "../../api/http.ts";
import { ApiError } from "../../api/request.ts";
import type { Schemas, Token } from "../../api/types.ts";
import { chooseLanguage, language, theme, type Theme } from "../../state/preferences.ts";
import { outgoing } from "../../state/outbox.ts";
import { attempt, messageOf, tell } from "../../state/toasts.ts";
import { ago, clock, t } from "../../texts/index.ts";
import { confirmed } from "../../ui/dialog.tsx";

const THEMES: readonly (readonly [Theme, "themeSystem" | "themeLight" | "themeDark"])[] = [["system", "themeSystem"], ["light", "themeLight"], ["dark", "themeDark"]];

export function Settings() {
  const signedIn = account.value;
  if (!signedIn) return null;
  return (
    <div class="page narrow">
      <header class="page-head"><h1>{t("settings")}</h1></header>
      <section class="card" aria-label={t("appearance")}>
        <h2>{t("appearance")}</h2>
        <div class="setting"><span id="theme-label">{t("theme")}</span>
          <div class="segments" role="group" aria-labelledby="theme-label">
            {THEMES.map(([value, text]) => <button type="button" key={value} aria-pressed={theme.value === value} onClick={() => (theme.value = value)}>{t(text)}</button>)}
          </div>
        </div>
        <div class="setting"><span id="language-label">{t("language")}</span>
          <div class="segments" role="group" aria-labelledby="language-label">
            <button type="button" lang="en" aria-pressed={language.value === "en"} onClick={() => chooseLanguage("en")}>English</button>
            <button type="button" lang="zh" aria-pressed={language.value === "zh"} onClick={() => chooseLanguage("zh")}>中文</button>
          </div>
        </div>
      </section>
      <section class="card" aria-label={t("access")}>
        <h2>{t("access")}</h2>
        <div class="setting"><span><bdi>{t("signedInAs", { label: signedIn.label, namespace: signedIn.namespace })}</bdi>{signedIn.tokenId === null && <small class="muted block">{t(signedIn.isPaired ? "isPaired" : "keepsTyped")}</small>}</span>
          <button type="button" onClick={() => void leave()}>{t("signOut")}</button></div>
        <Tokens own={signedIn.tokenId} />
      </section>
      <section class="card" aria-label={t("about")}><h2>{t("about")}</h2><Version /><p><a href="/docs" target="_blank" rel="noopener">{t("apiDocs")}</a></p></section>
    </div>
  );
}

async function leave(): Promise<void> {
  const unsent = outgoing.value.filter((message) => message.state !== "accepted").length;
  if (unsent && !(await confirmed(t("signOut"), t("signOutUnsent", { n: unsent }), t("signOut")))) return;
  await attempt(async () => {
    if (!(await signOut())) tell(t("notRevoked"), true);
  });
}

function Tokens({ own }: { own: string | null }) {
  const [tokens, setTokens] = useState<Token[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const read = async (): Promise<void> => {
    try {
      setTokens((await get<Schemas["TokensResponse"]>("/api/tokens")).tokens);
      setProblem(null);
    } catch (error) {
      setProblem(error instanceof ApiError && error.status === 403 ? t("noAdmin") : messageOf(error));
    }
  };
  useEffect(() => void read(), []);
  const revoke = async (token: Token): Promise<void> => {
    if (token.id === own) { await leave(); return; }
    if (!(await confirmed(t("revoke"), t("revokeQuestion", { label: token.label }), t("revoke")))) return;
    await attempt(() => call("DELETE", `/api/tokens/${token.id}`));
    await read();
  };
  if (problem) return <p class="muted small">{problem}</p>;
  return (
    <>
      <h3>{t("tokensTitle")}</h3>
      <ul class="tokens">
        {tokens?.map((token) => (
          <li key={token.id}>
            <span><b><bdi>{token.label}</bdi></b> {token.id === own && <span class="tag">{t("thisBrowser")}</span>}
              <small class="muted block">{token.scopes.join(", ")} · {token.lastUsedAt ? t("used", { time: ago(token.lastUsedAt) }) : t("neverUsed")} · {token.expiresAt ? t("expiresOn", { time: clock(token.expiresAt) }) : t("neverExpires")}</small></span>
            <button type="button" onClick={() => void revoke(token)}>{token.id === own ? t("signOut") : t("revoke")}</button>
          </li>
        ))}
      </ul>
    </>
  );
}

function Version() {
  const [version, setVersion] = useState("");
  useEffect(() => void get<Schemas["Health"]>("/health").then((health) => setVersion(health.version), () => undefined), []);
  return <p>Farsteer {version}</p>;
}
