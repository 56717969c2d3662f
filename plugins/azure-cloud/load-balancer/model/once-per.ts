/**
 * A pure function of an object that is never changed in place, computed once for each object and kept as long as it:
 * every plan asks for the same values of all Services.
 */
export function oncePer<Input extends object, Value>(compute: (input: Input) => Value): (input: Input) => Value {
  const values = new WeakMap<Input, { readonly value: Value }>();
  return (input) => {
    const known = values.get(input);
    if (known !== undefined) return known.value;
    const value = compute(input);
    values.set(input, { value });
    return value;
  };
}
