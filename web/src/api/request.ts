/** An answer that is an error, or none at all: then `status` is 0. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(status: number, code: string, message: string, details: Record<string, unknown> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }

  /** Whether the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

interface Options {
  jwt?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

const TIMEOUT_MS = 60_000;

/** Sends one request and returns the decoded body. Throws ApiError. */
export async function send<T>(method: string, path: string, body?: unknown, options: Options = {}): Promise<T> {
  const response = await open(method, path, body, options);
  try {
    return (await response.json()) as T;
  } catch {
    throw new ApiError(0, "unreadable", "the answer was cut off");
  }
}

export async function open(method: string, path: string, body?: unknown, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (options.jwt) headers["Authorization"] = `Bearer ${options.jwt}`;
  let response: Response;
  try {
    response = await fetch(path, {
      method, headers, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer",
      body: body === undefined ? null : JSON.stringify(body),
      signal: options.signal ?? AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new ApiError(0, "unreachable", "the hub does not answer");
  }
  if (response.ok) return response;
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const body = (await response.json()) as {
      error?: { code?: string; message?: string; details?: Record<string, unknown> };
      message?: string; logs?: unknown[]; details?: Record<string, unknown>;
    };
    if (body.error) {
      return new ApiError(response.status, body.error.code ?? "", body.error.message ?? response.statusText, body.error.details ?? {});
    }
    return new ApiError(response.status, "not_created", body.message ?? response.statusText, { ...body.details, logs: body.logs ?? [] });
  } catch {
    return new ApiError(response.status, "", `the hub answered ${response.status}`);
  }
}
