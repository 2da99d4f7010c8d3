import { currentJwt, forgetJwt } from "./account.ts";
import { ApiError, open, send } from "./request.ts";

/** Calls the API as the signed-in account. A JWT that the hub no longer takes is renewed once. Throws ApiError. */
export async function call<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
  return withJwt((jwt) => send<T>(method, path, body, headers ? { jwt, headers } : { jwt }));
}

export const get = <T>(path: string): Promise<T> => call<T>("GET", path);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => call<T>("POST", path, body);

export async function download(path: string): Promise<{ blob: Blob; name: string }> {
  const response = await withJwt((jwt) => open("GET", path, undefined, { jwt }));
  const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "session";
  return { blob: await response.blob(), name };
}

async function withJwt<T>(request: (jwt: string) => Promise<T>): Promise<T> {
  try {
    return await request(await currentJwt());
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    forgetJwt();
    return request(await currentJwt());
  }
}
