# For hosts whose kernel keeps user namespaces from processes without a profile
# (kernel.apparmor_restrict_unprivileged_userns = 1, as Ubuntu sets it from 24.04 on). It takes nothing away, like
# "unconfined", and allows what OpDiff's sandbox is made of. run.sh loads it and names it for the check's container.
abi <abi/4.0>,

profile opdiff flags=(unconfined) {
  userns,
}
