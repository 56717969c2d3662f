/**
 * ARM's patterns of names that become segments of a path, where `.` or `..` would stand for another resource: a resource
 * group has no `.` at its end, another resource starts with a letter or digit and ends with one or with `_`.
 */
export const groupPattern = /^[-\w.()\p{L}\p{N}]*[-\w()\p{L}\p{N}]$/u;
export const namePattern = /^[a-z0-9](?:[\w.-]*\w)?$/iu;

/**
 * The long s and the Kelvin sign: for JavaScript these are S and K in another case, for ARM other letters. A name with one
 * would be compared as that of a resource, and read as one that does not exist.
 */
export const lookalikes = /[\u017f\u212a]/u;
