/**
 * ARM's patterns of names that become segments of a path, where `.` or `..` would stand for another resource: a resource
 * group has no `.` at its end, another resource starts with a letter or digit and ends with one or with `_`.
 */
export const groupPattern = /^[-\w.()\p{L}\p{N}]*[-\w()\p{L}\p{N}]$/u;
export const namePattern = /^[a-z0-9](?:[\w.-]*\w)?$/iu;
