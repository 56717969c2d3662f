type Labels = Readonly<Record<string, string>>;

/** upstream: `metav1.LabelSelector`. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}

type Expression = NonNullable<LabelSelector["matchExpressions"]>[number];

const operators: Readonly<Record<string, (value: string | undefined, values: readonly string[]) => boolean>> = {
  In: (value, values) => value !== undefined && values.includes(value),
  NotIn: (value, values) => value === undefined || !values.includes(value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
};

/** True if the labels match; an empty selector matches everything. An unknown operator matches nothing. */
export function matches({ matchLabels = {}, matchExpressions = [] }: LabelSelector, labels: Labels): boolean {
  const holds = ({ key, operator, values = [] }: Expression): boolean =>
    Object.hasOwn(operators, operator) && operators[operator]?.(labels[key], values) === true;
  return Object.entries(matchLabels).every(([key, value]) => labels[key] === value) && matchExpressions.every(holds);
}

export const isEmptySelector = (selector: LabelSelector | undefined): boolean =>
  Object.keys(selector?.matchLabels ?? {}).length === 0 && (selector?.matchExpressions ?? []).length === 0;
