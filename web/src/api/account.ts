import { signal } from "@preact/signals";
import { ApiError, send } from "./request.ts";
import type { Schemas } from "./types.ts";

/** What this browser keeps to sign in again. */
export interface Account {
  token: string;
  namespace: string;
  label: string;
  /** The token that was made for this browser; null if it keeps the one that was typed in, or got one by a pairing code. */
  tokenId: string | null;
  isPaired?: boolean;
}

const KEY = "farsteer.account";
/** The namespace of an account that the hub has signed out. */
const LEFT_KEY = "farsteer.left";
const WANTED_SCOPES = ["read", "write", "approve", "admin"] as const;
const TOKEN_SECONDS = 180 * 86_400;
const EARLY_MS = 60_000;

const PAIRING_CODE = /^[0-9A-Z]{5}-?[0-9A-Z]{5}$/i;

export const account = signal<Account | null>(read());
/** Why the account was signed out by the hub, for the sign-in screen. */
export const signedOutBy = signal<string | null>(null);

let linkCode = readLink();
let jwt: { token: string; expiresAt: number } | null = null;
let pending: Promise<string> | null = null;

/** Returns a JWT that is valid for a while, a new one if needed. Throws ApiError. */
export async function currentJwt(): Promise<string> {
  if (jwt && jwt.expiresAt - Date.now() > EARLY_MS) return jwt.token;
  pending ??= renew().finally(() => (pending = null));
  return pending;
}

export function forgetJwt(): void {
  jwt = null;
}

async function renew(): Promise<string> {
  const signedIn = account.value;
  if (!signedIn) throw new ApiError(401, "unauthorized", "not signed in");
  try {
    const answer = await exchange(signedIn.token);
    jwt = { token: answer.token, expiresAt: answer.expiresAt };
    return answer.token;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401 && account.value === signedIn) {
      signedOutBy.value = error.message;
      // What was not sent yet waits for the next sign-in to the same namespace.
      localStorage.setItem(LEFT_KEY, signedIn.namespace);
      leave();
    }
    throw error;
  }
}

function exchange(accessToken: string): Promise<Schemas["AuthResponse"]> {
  return send("POST", "/api/auth", { accessToken, deviceType: "browser", clientId: browserLabel() });
}

/** Signs in with a typed token, or with a pairing code. */
export async function signIn(typed: string): Promise<void> {
  const signedIn = PAIRING_CODE.test(typed) ? await redeem(typed) : await signInWithToken(typed);
  jwt = null;
  const left = localStorage.getItem(LEFT_KEY);
  if (left !== null && left !== signedIn.namespace) clearWork();
  localStorage.removeItem(LEFT_KEY);
  localStorage.setItem(KEY, JSON.stringify(signedIn));
  signedOutBy.value = null;
  account.value = signedIn;
}

/** Makes a token of its own for this browser if the typed one may do that. */
async function signInWithToken(typed: string): Promise<Account> {
  const answer = await exchange(typed);
  const own = await mint(answer);
  return own
    ? { token: own.secret, tokenId: own.token.id, namespace: answer.namespace, label: own.token.label }
    : { token: typed, tokenId: null, namespace: answer.namespace, label: answer.user.identity?.label ?? "" };
}

async function redeem(code: string): Promise<Account> {
  const body = { code, label: browserLabel() };
  const made: Schemas["TokenCreated"] = await send("POST", "/api/pairings/redeem", body);
  return { token: made.secret, tokenId: null, namespace: made.token.namespace, label: made.token.label, isPaired: true };
}

async function mint(signedIn: Schemas["AuthResponse"]): Promise<Schemas["TokenCreated"] | null> {
  let scopes: string[] = [...WANTED_SCOPES];
  while (scopes.length) {
    try {
      const body = { label: `Browser: ${browserLabel()}`, namespace: signedIn.namespace, scopes, expiresIn: TOKEN_SECONDS };
      return await send("POST", "/api/tokens", body, { jwt: signedIn.token });
    } catch (error) {
      const lacking = error instanceof ApiError && error.status === 403 ? error.details["scope"] : undefined;
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      // Only `admin` makes tokens; another scope that it lacks is left out.
      if (typeof lacking !== "string" || lacking === "admin" || !scopes.includes(lacking)) return null;
      scopes = scopes.filter((scope) => scope !== lacking);
    }
  }
  return null;
}

/** Clears what this browser keeps, and revokes its token. Returns false if the hub did not answer: then it stays valid. */
export async function signOut(): Promise<boolean> {
  let isRevoked = true;
  const signedIn = account.value;
  if (signedIn?.tokenId) {
    try {
      await send("DELETE", `/api/tokens/${signedIn.tokenId}`, undefined, { jwt: await currentJwt() });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      isRevoked = error.status === 401 || error.status === 404;
    }
  }
  forget();
  return isRevoked;
}

function leave(): void {
  jwt = null;
  localStorage.removeItem(KEY);
  account.value = null;
}

/** Removes everything of the account: drafts and what was not sent yet too. */
function forget(): void {
  clearWork();
  leave();
}

function clearWork(): void {
  for (const key of Object.keys(localStorage)) if (key.startsWith("farsteer.") && !KEPT.has(key)) localStorage.removeItem(key);
  indexedDB.deleteDatabase("farsteer");
}

const KEPT = new Set(["farsteer.theme", "farsteer.language"]);

function read(): Account | null {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "null") as Partial<Account> | null;
    if (typeof found?.token !== "string") return null;
    return {
      token: found.token, namespace: found.namespace ?? "default", label: found.label ?? "", tokenId: found.tokenId ?? null,
      isPaired: found.isPaired === true,
    };
  } catch {
    return null;
  }
}

/** Returns the code of a link from `farsteer pair`, once. A person decides whether to use it. */
export function takePairingCode(): string {
  const code = linkCode;
  linkCode = "";
  return code;
}

/** Takes the code out of the address. */
function readLink(): string {
  const [, code = ""] = /^#pair=(.*)$/.exec(location.hash) ?? [];
  if (code) history.replaceState(null, "", location.pathname);
  return PAIRING_CODE.test(code) ? code : "";
}

/** Another tab has signed in or out. */
export function followOtherTabs(): void {
  addEventListener("storage", (event) => {
    if (event.key !== KEY && event.key !== null) return;
    jwt = null;
    account.value = read();
  });
}

export function browserLabel(): string {
  const agent = navigator.userAgent;
  const browser = /Edg\//.test(agent) ? "Edge" : /Firefox\//.test(agent) ? "Firefox" : /Chrom(e|ium)\//.test(agent) ? "Chrome"
    : /Safari\//.test(agent) ? "Safari" : "a browser";
  const system = /Android/.test(agent) ? "Android" : /iPhone|iPad/.test(agent) ? "iOS" : /Windows/.test(agent) ? "Windows"
    : /Mac OS/.test(agent) ? "macOS" : /Linux/.test(agent) ? "Linux" : "";
  return system ? `${browser} on ${system}` : browser;
}
