import assert from "node:assert/strict";
import test from "node:test";
import { newId } from "./ids.ts";

test("an id is a random UUID, also where the page is not served securely", () => {
  const ids = Array.from({ length: 100 }, newId);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(ids).size, ids.length);
});
