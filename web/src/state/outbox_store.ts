import type { Outgoing } from "../model/sender.ts";

const NAME = "farsteer";
const STORE = "outbox";

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "localId" });
    request.onsuccess = () => {
      // Another tab signs out and deletes the database.
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
    request.onerror = () => reject(request.error ?? new Error("no database"));
  });
}

async function transact<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await open();
  try {
    return await new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(STORE, mode, { durability: "strict" });
      const request = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error("not stored"));
    });
  } finally {
    database.close();
  }
}

/** The messages that a reload or a crash must not lose, in the order they were sent. */
export async function allMessages(): Promise<Outgoing[]> {
  const found = await transact<Outgoing[]>("readonly", (store) => store.getAll() as IDBRequest<Outgoing[]>);
  return found.sort((one, other) => one.at - other.at);
}

export async function storeMessage(message: Outgoing): Promise<void> {
  await transact("readwrite", (store) => store.put(message));
}

export async function deleteMessage(localId: string): Promise<void> {
  await transact("readwrite", (store) => store.delete(localId));
}
