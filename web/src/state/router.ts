import { signal } from "@preact/signals";

export type Route =
  | { screen: "home" | "inbox" | "new" | "machines" | "usage" | "settings" }
  | { screen: "session"; id: string };

const SCREENS = ["inbox", "new", "machines", "usage", "settings"] as const;

export const route = signal<Route>(parse(location.hash));

function parse(hash: string): Route {
  const [, first = "", second = ""] = hash.replace(/^#/, "").split("/");
  if (first === "s" && /^[0-9a-f-]{36}$/.test(second)) return { screen: "session", id: second };
  return { screen: SCREENS.find((screen) => screen === first) ?? "home" };
}

addEventListener("hashchange", () => (route.value = parse(location.hash)));

export function go(address: string): void {
  location.hash = address;
}

export const sessionAddress = (id: string): string => `#/s/${id}`;
