/** What gets the client of a cluster that runs; code, so never translated. */
export const CLIENT_LINES = `%load_ext jupyter_gpudask
cluster = %gpudask start
client = cluster.client`;
