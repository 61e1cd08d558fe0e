// The start form: our options behind one disclosure of their own, so that the form stays short.
export function installFormGroups() {}
