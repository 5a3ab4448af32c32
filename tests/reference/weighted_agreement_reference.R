# Agreement of units that were drawn with unequal probabilities, by survey 4.1.1: Rscript weighted_agreement_reference.R > ...json
suppressMessages(library(survey))
set.seed(37)
cases <- list()
for (k in 1:6) {
  n <- c(25, 30, 60, 150, 400, 40)[k]
  size <- c(2, 3, 2, 4, 3, 2)[k]
  judge <- sample(size, n, replace = TRUE)
  person <- ifelse(runif(n) < 0.7, judge, sample(size, n, replace = TRUE))
  weight <- round(exp(rnorm(n, sd = c(0.3, 0.8, 1, 0.5, 1.2, 0)[k])), 3)
  levels <- 1:size
  rows <- data.frame(judge = factor(judge, levels), person = factor(person, levels), same = judge == person)
  design <- svydesign(ids = ~1, weights = ~weight, data = rows)
  kappa <- svykappa(~judge + person, design)
  share <- svymean(~as.numeric(same), design)
  cases[[k]] <- sprintf(
    '{"judge": [%s], "person": [%s], "weights": [%s], "kappa": %.15g, "kappa_se": %.15g, "share": %.15g, "share_se": %.15g}',
    paste(judge, collapse = ", "), paste(person, collapse = ", "), paste(weight, collapse = ", "),
    coef(kappa), SE(kappa), coef(share), SE(share)
  )
}
cat("[\n", paste(unlist(cases), collapse = ",\n"), "\n]\n", sep = "")
