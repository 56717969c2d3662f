/** Signals that follow others. The runtime never collects one that has listeners, nor what these hold. */
const followers: WeakRef<AbortSignal>[] = [];
const listenersOf = new WeakMap<AbortSignal, Map<EventListener, string>>();

const any = AbortSignal.any.bind(AbortSignal);

/** `AbortSignal.any`, whose listeners `releaseSignals` removes. */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const signal = any([...signals]);
  const add = signal.addEventListener.bind(signal);
  return Object.assign(signal, {
    addEventListener(type: string, listener: EventListener, options?: AddEventListenerOptions) {
      const listeners = listenersOf.get(signal) ?? new Map<EventListener, string>();
      if (listeners.size === 0) followers.push(new WeakRef(signal));
      listenersOf.set(signal, listeners.set(listener, type));
      add(type, listener, options);
    },
  });
}

/** A world has ended: a campaign of thousands would keep every one of them. */
export function releaseSignals(): void {
  for (const follower of followers.splice(0)) {
    const signal = follower.deref();
    if (signal === undefined) continue;
    for (const [listener, type] of listenersOf.get(signal) ?? []) signal.removeEventListener(type, listener);
  }
}
