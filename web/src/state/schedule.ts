/** Returns a function that runs `work` once, soon, however often it is called: with the next frame if anybody looks. */
export function soon(work: () => void): () => void {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    const run = (): void => {
      waits = false;
      work();
    };
    if (document.hidden) setTimeout(run, 250);
    else requestAnimationFrame(run);
  };
}
