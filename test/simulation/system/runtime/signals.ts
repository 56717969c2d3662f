/** Listeners of signals that follow others. The runtime never collects such a signal, nor what its listeners hold. */
const listening = new Map<AbortSignal, Map<EventListener, string>>();

const any = AbortSignal.any.bind(AbortSignal);

/** `AbortSignal.any`, whose listeners `releaseSignals` removes. */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const signal = any([...signals]);
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  const own = new Map<EventListener, string>();
  return Object.assign(signal, {
    addEventListener(type: string, listener: EventListener, options?: AddEventListenerOptions) {
      own.set(listener, type);
      listening.set(signal, own);
      add(type, listener, options);
    },
    removeEventListener(type: string, listener: EventListener) {
      own.delete(listener);
      if (own.size === 0) listening.delete(signal);
      remove(type, listener);
    },
  });
}

/** A world has ended: a campaign of thousands would keep every one of them. */
export function releaseSignals(): void {
  for (const [signal, listeners] of listening)
    for (const [listener, type] of listeners) signal.removeEventListener(type, listener);
  listening.clear();
}
