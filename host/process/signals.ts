export interface SignalActions {
  /** The first SIGTERM or SIGINT: a clean stop. */
  readonly stop: () => void;
  /** SIGHUP. */
  readonly reload: () => void;
}

/** Exit status of a process ended by a signal: 128 + its number. */
const exitStatus = { SIGINT: 130, SIGTERM: 143 } as const;

let isStopped = false;

/** True once a signal has requested a clean stop. */
export const wasStopped = (): boolean => isStopped;

/** Handles signals until disposed. A second SIGTERM or SIGINT ends the process at once. */
export function onSignals({ stop, reload }: SignalActions): Disposable {
  const end = (status: number) => () => {
    if (isStopped) process.exit(status);
    isStopped = true;
    stop();
  };
  const listeners = [
    ["SIGINT", end(exitStatus.SIGINT)],
    ["SIGTERM", end(exitStatus.SIGTERM)],
    ["SIGHUP", () => reload()],
  ] as const;
  for (const [signal, listener] of listeners) process.on(signal, listener);
  return {
    [Symbol.dispose]() {
      for (const [signal, listener] of listeners) process.off(signal, listener);
    },
  };
}

/** Until disposed, a signal ends the process at once. Without a handler, a container's first process ignores it. */
export function exitOnSignals(): Disposable {
  const listeners = Object.entries(exitStatus).map(([signal, status]) => [signal, () => process.exit(status)] as const);
  for (const [signal, listener] of listeners) process.on(signal, listener);
  return {
    [Symbol.dispose]() {
      for (const [signal, listener] of listeners) process.off(signal, listener);
    },
  };
}

/**
 * Holds SIGHUPs back until the host can reload: without a listener, one ends the process. The returned function
 * stops holding them back and returns true if one arrived.
 */
export function holdReload(): () => boolean {
  let isRequested = false;
  const hold = (): void => {
    isRequested = true;
  };
  process.on("SIGHUP", hold);
  return () => {
    process.off("SIGHUP", hold);
    return isRequested;
  };
}
