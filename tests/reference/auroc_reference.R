# Areas under ROC curves and their differences, by pROC (DeLong 1988): Rscript auroc_reference.R > auroc_reference.json
suppressMessages(library(pROC))
set.seed(20)
cases <- list()
for (k in 1:6) {
  n <- c(20, 50, 100, 200, 60, 40)[k]
  label <- rep(c(1, 0), c(n %/% 3, n - n %/% 3))
  shared <- rnorm(n)
  first <- round(shared + label * 1.2 + rnorm(n), if (k > 4) 0 else 3)
  second <- round(shared + label * 0.8 + rnorm(n), if (k > 4) 0 else 3)
  one <- roc(label, first, direction = "<", quiet = TRUE)
  other <- roc(label, second, direction = "<", quiet = TRUE)
  test <- roc.test(one, other, method = "delong", paired = TRUE)
  cases[[k]] <- sprintf(
    '{"label": [%s], "first": [%s], "second": [%s], "areas": [%.15g, %.15g], "variances": [%.15g, %.15g], "z": %.15g, "p": %.15g}',
    paste(label, collapse = ", "), paste(first, collapse = ", "), paste(second, collapse = ", "),
    auc(one), auc(other), var(one, method = "delong"), var(other, method = "delong"), test$statistic, test$p.value
  )
}
cat("[\n", paste(unlist(cases), collapse = ",\n"), "\n]\n", sep = "")
