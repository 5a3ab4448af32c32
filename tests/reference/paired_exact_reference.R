# Reference numbers of `stats.paired_exact_p_value` and `stats.paired_exact_bound`, in base R and by brute force:
# every outcome of n pairs, Tango's statistic from a numerical maximum likelihood, a fine grid of discordance rates.
#   Rscript paired_exact_reference.R > paired_exact_reference.json
left.out <- 1e-10
grid <- 2001

outcomes <- function(n) subset(expand.grid(gained = 0:n, lost = 0:n), gained + lost <= n)

chances <- function(all, n, difference, discordance) {
  g <- (discordance + difference) / 2; l <- (discordance - difference) / 2
  exp(lgamma(n + 1) - lgamma(all$gained + 1) - lgamma(all$lost + 1) - lgamma(n - all$gained - all$lost + 1)) *
    g^all$gained * l^all$lost * (1 - discordance)^(n - all$gained - all$lost)
}

# The p-value of a region: its largest probability over the rates near the observed one.
p.value <- function(all, inside, n, discordant, difference) {
  low <- if (discordant == 0) 0 else qbeta(left.out / 2, discordant, n - discordant + 1)
  high <- if (discordant == n) 1 else qbeta(1 - left.out / 2, discordant + 1, n - discordant)
  low <- max(low, abs(difference))
  if (low > high) return(left.out)
  of <- function(rate) sum(chances(all[inside, ], n, difference, rate))
  rates <- seq(low, high, length.out = grid)
  found <- sapply(rates, of)
  best <- which.max(found)
  near <- optimize(of, rates[c(max(best - 1, 1), min(best + 1, grid))], maximum = TRUE, tol = 1e-12)$objective
  min(1, max(found, near) + left.out)
}

mcnemar <- function(all) ifelse(all$gained + all$lost == 0, 0, (all$gained - all$lost) / sqrt(all$gained + all$lost))

two.sided <- function(gained, lost, n) {
  all <- outcomes(n)
  z <- abs(mcnemar(data.frame(gained, lost)))
  min(1, 2 * p.value(all, mcnemar(all) >= z - 1e-9, n, gained + lost, 0))
}

# Tango's z of the true difference d; the rate of lost pairs maximises the likelihood.
tango <- function(gained, lost, n, d) {
  term <- function(k, rate) if (k == 0) 0 else k * log(rate)
  of <- function(l) term(gained, l + d) + term(lost, l) + term(n - gained - lost, 1 - d - 2 * l)
  ends <- c(max(0, -d), (1 - d) / 2)
  l <- optimize(of, ends, maximum = TRUE, tol = 1e-14)$maximum
  for (end in ends) if (is.finite(of(end)) && of(end) >= of(l)) l <- end
  (gained - lost - n * d) / sqrt(n * (2 * l + d * (1 - d)))
}

limit <- function(gained, lost, n, z) {
  if (lost == n) return(-1)
  of <- function(d) tango(gained, lost, n, d) - z
  uniroot(of, c(-1 + 1e-9, (gained - lost) / n - 1e-9), tol = 1e-12)$root
}

lower <- function(gained, lost, n, alpha) {
  all <- outcomes(n)
  z <- qnorm(1 - alpha)
  rank <- mapply(limit, all$gained, all$lost, MoreArgs = list(n = n, z = z))
  inside <- rank >= limit(gained, lost, n, z) - 1e-7
  of <- function(d) log(p.value(all, inside, n, gained + lost, d)) - log(alpha)
  uniroot(of, c(-1 + 1e-6, (gained - lost) / n), tol = 1e-9)$root
}

tests <- list(c(4, 0, 4), c(1, 0, 1), c(5, 0, 12), c(6, 0, 50), c(4, 0, 50), c(9, 2, 60), c(12, 4, 50), c(8, 1, 30), c(3, 3, 9),
              c(7, 8, 40), c(30, 20, 120), c(25, 10, 35), c(40, 20, 200))
bounds <- list(c(0, 0, 30), c(1, 0, 12), c(0, 1, 12), c(4, 0, 10), c(2, 2, 20), c(9, 2, 24), c(0, 3, 30), c(12, 6, 18))
cat("{\"p\": [\n")
cat(paste(sapply(tests, function(x) sprintf("[%d, %d, %d, %.10g]", x[1], x[2], x[3], two.sided(x[1], x[2], x[3]))), collapse = ",\n"))
cat("],\n\"lower\": [\n")
cat(paste(unlist(lapply(c(0.05, 0.025, 0.005), function(a) sapply(bounds, function(x)
  sprintf("[%d, %d, %d, %g, %.10g]", x[1], x[2], x[3], a, lower(x[1], x[2], x[3], a))))), collapse = ",\n"))
cat("]}\n")
