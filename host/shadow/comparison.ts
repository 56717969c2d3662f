import type { PlanDocument } from "../changes/plan-schema.ts";
import { failedSubject } from "../plan/document.ts";
import type { ShadowDifference as Difference } from "../run/status.ts";

type PlannedChange = Omit<Difference, "since">;

/** One plan, and what had changed in the cluster by then. */
export interface Compared {
  readonly plan: PlanDocument;
  /** Changes that the other manager has had time to act on, such as `Service default/web`. */
  readonly settled: ReadonlySet<string>;
  /** Changes that are too young to judge. */
  readonly unsettled: ReadonlySet<string>;
  readonly at: string;
}

/** Settled changes: those in `agreed` have left no difference, those in `differed` have. */
export interface Verdict {
  readonly agreed: readonly string[];
  readonly differed: readonly string[];
  /** New differences. */
  readonly found: readonly Difference[];
  /** Differences that have disappeared. */
  readonly gone: readonly Difference[];
}

const nothing: Verdict = { agreed: [], differed: [], found: [], gone: [] };

/** Objects behind a change and, for a Kubernetes object, the object itself. */
const subjectsOf = ({ system, resource, reasons }: PlannedChange): readonly string[] =>
  system === "kubernetes" ? [resource, ...reasons] : reasons;

const keyOf = ({ system, action, resource }: PlannedChange): string => `${system} ${action} ${resource.toLowerCase()}`;

/** The objects of a plan's failures: what could not be read may be missing from it, or in it. Undefined for all objects. */
function failingSubjects({ failures }: PlanDocument): ReadonlySet<string> | undefined {
  const subjects = failures.flatMap((failure) => failedSubject(failure) ?? []);
  return subjects.length < failures.length ? undefined : new Set(subjects);
}

/** The differences between this host and the other manager. Each is found once, for as long as it lasts. */
export class Differences {
  readonly #known = new Map<string, Difference>();
  /** Changes without an object behind them. They count as differences once they are planned twice in a row. */
  #unexplained: ReadonlySet<string> = new Set();

  get list(): readonly Difference[] {
    return [...this.#known.values()];
  }

  /** True while differences, or changes without an object, remain for the next plan to judge. */
  get isOpen(): boolean {
    return this.#known.size > 0 || this.#unexplained.size > 0;
  }

  /** True if `compare` would find a new difference. */
  finds(seen: Pick<Compared, "plan" | "unsettled">): boolean {
    return this.#judged(seen).some((change) => !this.#known.has(keyOf(change)));
  }

  /** The changes of a plan that are old enough to be differences. */
  #judged({ plan, unsettled }: Pick<Compared, "plan" | "unsettled">): readonly PlannedChange[] {
    const failing = failingSubjects(plan);
    if (failing === undefined) return [];
    return plan.changes.filter((change) => {
      const subjects = subjectsOf(change);
      if (subjects.length > 0) return !subjects.some((subject) => unsettled.has(subject) || failing.has(subject));
      return this.#unexplained.has(keyOf(change)) || this.#known.has(keyOf(change));
    });
  }

  compare({ plan, settled, unsettled, at }: Compared): Verdict {
    const failing = failingSubjects(plan);
    if (failing === undefined) return nothing;
    const judged = this.#judged({ plan, unsettled });
    const isFailing = (change: PlannedChange): boolean => subjectsOf(change).some((subject) => failing.has(subject));
    const isOpen = (change: PlannedChange): boolean => subjectsOf(change).some((subject) => unsettled.has(subject));
    this.#unexplained = new Set(plan.changes.filter((change) => subjectsOf(change).length === 0).map(keyOf));
    const found = judged
      .filter((change) => !this.#known.has(keyOf(change)))
      .map((change) => ({ ...change, since: at }));
    const planned = new Set(plan.changes.map(keyOf));
    const gone = this.list.filter((known) => !planned.has(keyOf(known)) && !isFailing(known));
    for (const change of judged)
      this.#known.set(keyOf(change), { ...change, since: this.#known.get(keyOf(change))?.since ?? at });
    for (const change of gone) this.#known.delete(keyOf(change));
    const behind = (changes: readonly PlannedChange[]): ReadonlySet<string> => new Set(changes.flatMap(subjectsOf));
    const [differing, open] = [behind(judged), behind(plan.changes.filter(isOpen))];
    const decided = [...settled].filter((subject) => !failing.has(subject) && !open.has(subject));
    return {
      agreed: decided.filter((subject) => !differing.has(subject)),
      differed: decided.filter((subject) => differing.has(subject)),
      found,
      gone,
    };
  }
}
